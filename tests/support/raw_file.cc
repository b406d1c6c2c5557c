#include "tests/support/raw_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "lib/comm/comm.h"

namespace relibra::test {
namespace {

template <class R>
R ok(R result, const std::string& what) {
  if (result < 0) throw std::runtime_error("raw file: " + what);
  return result;
}

hid_t text_type(std::size_t bytes) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  ok(H5Tset_size(type, bytes == 0 ? 1 : bytes), "string size");
  return type;
}

void write_attribute(hid_t file, const std::string& name, const RawAttribute& a) {
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t type = a.is_text ? text_type(a.variable ? H5T_VARIABLE : a.text.size()) : H5Tcopy(a.type);
  const hid_t id =
      ok(H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "attribute " + name);
  const char* text = a.text.c_str();
  const void* data = a.is_text ? (a.variable ? static_cast<const void*>(&text) : text) : &a.value;
  ok(H5Awrite(id, a.is_text ? type : H5T_NATIVE_INT64, data), "attribute " + name);
  H5Aclose(id), H5Tclose(type), H5Sclose(space);
}

void write_strings(hid_t id, hid_t type, const RawArray& a, std::size_t width) {
  if (a.variable_strings) {
    std::vector<const char*> pointers;
    for (const auto& s : a.strings) pointers.push_back(s.c_str());
    ok(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), "strings");
    return;
  }
  std::vector<char> letters(std::max<std::size_t>(1, width) * a.strings.size());
  for (std::size_t i = 0; i < a.strings.size(); ++i)
    std::memcpy(letters.data() + i * width, a.strings[i].data(), a.strings[i].size());
  ok(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, letters.data()), "strings");
}

void write_array(hid_t file, const std::string& path, const RawArray& a) {
  std::size_t width = 0;
  for (const auto& s : a.strings) width = std::max(width, s.size());
  const std::vector<hsize_t> dims(a.shape.begin(), a.shape.end());
  const std::vector<hsize_t> chunk(a.chunk.begin(), a.chunk.end());
  const hid_t space = ok(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), path);
  const hid_t type =
      a.strings.empty() ? H5Tcopy(a.type) : text_type(a.variable_strings ? H5T_VARIABLE : width);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_DATASET_CREATE);
  ok(H5Pset_create_intermediate_group(links, 1), path);
  if (!chunk.empty()) ok(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()), path);
  if (a.deflate) ok(H5Pset_deflate(creation, 1), path);
  const hid_t id = ok(H5Dcreate2(file, path.c_str(), type, space, links, creation, H5P_DEFAULT), path);
  if (!a.strings.empty()) write_strings(id, type, a, width);
  if (!a.values.empty())
    ok(H5Dwrite(id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, a.values.data()), path);
  if (!a.reals.empty())
    ok(H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, a.reals.data()), path);
  H5Dclose(id), H5Pclose(creation), H5Pclose(links), H5Tclose(type), H5Sclose(space);
}

}  // namespace

void RawFile::write(const std::string& path) const {
  const hid_t file = ok(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), path);
  for (const auto& [name, attribute] : attributes) write_attribute(file, name, attribute);
  for (const auto& [name, array] : arrays) write_array(file, name, array);
  ok(H5Fclose(file), path);
}

RawFile tiny_dump() {
  RawFile raw;
  raw.set("format", "relibra.routing");
  raw.set("version", 1);
  raw.set("step", 7);
  raw.set("num_experts", 4);
  raw.set("top_k", 2);
  raw["layers"] = {.shape = {2}, .values = {3, 5}};
  raw["sequences/row_offset"] = {.type = H5T_STD_I64LE, .shape = {4}, .values = {0, 2, 2, 5}};
  auto& experts = raw["experts"];
  experts = {.type = H5T_STD_U8LE, .shape = {5, 2, 2}};
  for (int r = 0; r < 5; ++r)
    for (int l = 0; l < 2; ++l)
      for (int k = 0; k < 2; ++k) experts.values.push_back((r + l + k) % 4);
  return raw;
}

hid_t half_type() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  ok(H5Tset_fields(type, 15, 10, 5, 0, 10), "half");
  ok(H5Tset_size(type, 2), "half");
  ok(H5Tset_ebias(type, 15), "half");
  return type;
}

TempFolder::TempFolder() {
  const Comm world = Comm::world();
  if (world.root()) {
    std::string name = (std::filesystem::temp_directory_path() / "relibra-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder " + name);
    path_ = name;
  }
  world.broadcast(path_);
}

TempFolder::~TempFolder() {
  const Comm world = Comm::world();
  world.barrier();
  std::error_code ignored;
  if (world.root()) std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TempFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace relibra::test
