#include "lib/job/watch_inbox.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "lib/job/plan_files.h"

namespace relibra {
namespace {

constexpr std::string_view kDump = ".h5", kPlan = ".plan.h5", kDone = ".done";

std::string joined(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string without(std::string_view name, std::string_view ending) {
  return std::string(name.substr(0, name.size() - ending.size()));
}

bool is_dump_name(std::string_view name) {
  return name.ends_with(kDump) && !name.ends_with(kPlan) && name.front() != '.';
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    names.push_back(entry->path().filename().string());
  if (failure)
    throw_environment({.where = folder, .expected = "a folder to list", .found = failure.message()});
  return names;
}

/// Empty where it is gone, or is no file.
std::optional<WatchedFile> look_at(const std::string& folder, const std::string& name) {
  struct stat found {};
  if (stat(joined(folder, name).c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
  return WatchedFile{.name = name,
                     .bytes = found.st_size,
                     .modified_ns = found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
}

std::optional<io::DumpPart> try_part_of(const std::string& path) {
  try {
    return io::part_of(path);
  } catch (const Error&) {
    return {};
  }
}

bool is_shard(const WatchedFile& file) {
  return file.part && file.part->num_shards > 1;
}

std::string plan_name(const WatchedFile& file) {
  if (is_shard(file)) return plan_path_in("", file.part->step);
  return without(file.name, kDump) + std::string(kPlan);
}

/// Different shards among `files` of a step in as many files as `like` says.
std::int64_t shards_like(const io::DumpPart& like, const std::vector<WatchedFile>& files) {
  std::set<std::int64_t> shards;
  for (const WatchedFile& file : files)
    if (file.part && file.part->num_shards == like.num_shards) shards.insert(file.part->shard);
  return static_cast<std::int64_t>(shards.size());
}

/// One file that is no shard is enough, also where shards would have the same plan: planning refuses that.
bool is_complete(const std::vector<WatchedFile>& files) {
  return std::any_of(files.begin(), files.end(), [&](const WatchedFile& file) {
    return !is_shard(file) || shards_like(*file.part, files) == file.part->num_shards;
  });
}

bool by_step(const StepRecord& a, const StepRecord& b) {
  return std::tie(a.step, a.plan) < std::tie(b.step, b.plan);
}

}  // namespace

WatchInbox::WatchInbox(std::string folder, std::string plans, bool done_marker,
                       std::vector<StepRecord> records)
    : folder_(std::move(folder)), plans_(std::move(plans)), done_marker_(done_marker) {
  for (StepRecord& record : records) {
    if (record.files.empty()) continue;
    for (const WatchedFile& file : record.files) files_[file.name] = file;
    if (record.result == StepRecord::Result::failed && record.fault == Fault::usage) continue;
    record.plan = plan_name(record.files.front());
    records_[record.plan] = std::move(record);
  }
}

void WatchInbox::look() {
  std::vector<std::string> dumps;
  std::set<std::string> done;
  for (const std::string& name : names_in(folder_)) {
    if (name.ends_with(kDone)) done.insert(without(name, kDone));
    if (is_dump_name(name)) dumps.push_back(name);
  }
  std::map<std::string, WatchedFile> now;
  for (const std::string& name : dumps) {
    if (done_marker_ && !done.contains(name) && !done.contains(without(name, kDump))) continue;
    auto file = look_at(folder_, name);
    if (!file) continue;
    const auto before = files_.find(name);
    file->part = before != files_.end() && before->second == *file ? before->second.part
                                                                   : try_part_of(joined(folder_, name));
    now[name] = *file;
  }
  files_ = std::move(now);
}

std::int64_t WatchInbox::scan() {
  look();
  found_ = 0;
  waiting_.clear();
  for (WatchJob& job : pending_) waiting_[job.record.plan] = std::move(job);
  pending_.clear();
  incomplete_.clear();
  std::map<std::string, Files> groups;
  for (const auto& [name, file] : files_) groups[plan_name(file)].push_back(file);
  for (const auto& [plan, files] : groups) {
    const auto& part = files.front().part;
    if (!is_complete(files))
      incomplete_.push_back({part->step, shards_like(*part, files), part->num_shards});
    else if (!is_settled(plan, files))
      add_pending(plan, files);
  }
  std::sort(pending_.begin(), pending_.end(),
            [](const WatchJob& a, const WatchJob& b) { return by_step(a.record, b.record); });
  forget_vanished();
  return found_;
}

bool WatchInbox::is_settled(const std::string& plan, const Files& files) {
  const auto record = records_.find(plan);
  if (record != records_.end()) return record->second.files == files;
  if (!std::filesystem::exists(joined(plans_, plan))) return false;
  StepRecord found{.plan = plan, .files = files};
  if (files.front().part) found.step = files.front().part->step;
  settle(std::move(found));
  ++found_;
  return true;
}

void WatchInbox::add_pending(const std::string& plan, const Files& files) {
  const auto before = waiting_.find(plan);
  if (before != waiting_.end() && before->second.record.files == files) {
    pending_.push_back(before->second);
    return;
  }
  WatchJob job{.record = {.plan = plan, .files = files}};
  if (files.front().part) job.record.step = files.front().part->step;
  pending_.push_back(std::move(job));
}

void WatchInbox::forget_vanished() {
  std::erase_if(records_, [&](const auto& entry) {
    const Files& files = entry.second.files;
    return std::none_of(files.begin(), files.end(),
                        [&](const WatchedFile& file) { return files_.contains(file.name); });
  });
}

void WatchInbox::settle(StepRecord record) {
  records_[record.plan] = std::move(record);
}

std::vector<StepRecord> WatchInbox::records() const {
  std::vector<StepRecord> sorted;
  for (const auto& [plan, record] : records_) sorted.push_back(record);
  std::sort(sorted.begin(), sorted.end(), by_step);
  return sorted;
}

}  // namespace relibra
