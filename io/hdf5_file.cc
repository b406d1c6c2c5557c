#include <unistd.h>

#include <filesystem>

#include "io/hdf5.h"

namespace relibra::io::h5 {
namespace {

// Every way in leads through here: errors become exceptions, so the library must not print them as well.
void start_library(const std::string& where) {
  int up = 0;
  MPI_Initialized(&up);
  if (up == 0)
    throw_environment({.where = where,
                       .expected = "MPI initialised before the first use of HDF5",
                       .found = "it is not",
                       .advice = "make an MpiSession first"});
  check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), Fault::environment, where);
}

Id property_list(hid_t cls, const std::string& where) {
  return {check(H5Pcreate(cls), Fault::environment, where), H5Pclose};
}

// One rank reads metadata for all.
Id parallel_access(const Comm& comm, const std::string& where) {
  Id access = property_list(H5P_FILE_ACCESS, where);
  check(H5Pset_fapl_mpio(access.get(), comm.handle(), MPI_INFO_NULL), Fault::environment, where);
  check(H5Pset_all_coll_metadata_ops(access.get(), true), Fault::environment, where);
  return access;
}

// Attributes are scalars; arrays of one element are taken for the same.
Id open_attribute(hid_t file, const char* attribute, const std::string& where) {
  Id id(check(H5Aopen(file, attribute, H5P_DEFAULT), Fault::input, where), H5Aclose);
  const Id space(check(H5Aget_space(id.get()), Fault::input, where), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.get()) != 1)
    throw_input({.where = where, .expected = "one value", .found = "an array or nothing"});
  return id;
}

bool has_attribute(hid_t file, const char* attribute, const std::string& where) {
  return check(H5Aexists(file, attribute), Fault::input, where) > 0;
}

[[noreturn]] void throw_missing(const std::string& where, const char* what) {
  throw_input({.where = where,
               .expected = what,
               .found = "none of this name",
               .advice = "docs/formats.md lists what a file must hold"});
}

}  // namespace

void file_is_there(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  if (!fs::exists(status))
    throw_input({.where = path, .expected = "an HDF5 file", .found = "no file of this name"});
  if (fs::is_directory(status))
    throw_input({.where = path, .expected = "an HDF5 file", .found = "a directory"});
  if (access(path.c_str(), R_OK) != 0)
    throw_input({.where = path, .expected = "a readable file", .found = "no permission to read it"});
}

File File::open(const std::string& path) {
  start_library(path);
  file_is_there(path);
  const htri_t known = H5Fis_hdf5(path.c_str());
  if (known == 0) throw_input({.where = path, .expected = "an HDF5 file", .found = "another kind of file"});
  return {Id(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), Fault::input, path), H5Fclose), path,
          Fault::input};
}

File File::open(const Comm& comm, const std::string& path) {
  start_library(path);
  const Id access = parallel_access(comm, path);
  return {Id(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), Fault::input, path), H5Fclose), path,
          Fault::input};
}

File File::create(const std::string& path, const std::string& shown) {
  start_library(shown);
  const Id creation = property_list(H5P_FILE_CREATE, shown);
  check(H5Pset_obj_track_times(creation.get(), false), Fault::environment, shown);
  return {Id(check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), Fault::environment,
                   shown),
             H5Fclose),
          shown, Fault::environment};
}

File File::open_for_writing(const Comm& comm, const std::string& path, const std::string& shown) {
  start_library(shown);
  const Id access = parallel_access(comm, shown);
  return {Id(check(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get()), Fault::environment, shown), H5Fclose),
          shown, Fault::environment};
}

bool File::has(const std::string& object) const {
  for (std::size_t at = 0; at != std::string::npos;) {  // each group on the way, then the object itself
    at = object.find('/', at + 1);
    const std::string part = object.substr(0, at);
    if (check(H5Lexists(id_.get(), part.c_str(), H5P_DEFAULT), fault_, where(object)) == 0) return false;
  }
  return true;
}

std::optional<std::int64_t> File::find_int(const char* attribute) const {
  const std::string place = where(attribute);
  if (!has_attribute(id_.get(), attribute, place)) return std::nullopt;
  const Id id = open_attribute(id_.get(), attribute, place);
  const Id type(check(H5Aget_type(id.get()), Fault::input, place), H5Tclose);
  if (H5Tget_class(type.get()) != H5T_INTEGER)
    throw_input({.where = place, .expected = "an integer attribute", .found = "another type"});
  std::int64_t value = 0;
  check(H5Aread(id.get(), H5T_NATIVE_INT64, &value), Fault::input, place);
  return value;
}

std::int64_t File::get_int(const char* attribute) const {
  const auto value = find_int(attribute);
  if (!value) throw_missing(where(attribute), "an integer attribute");
  return *value;
}

std::optional<std::string> File::find_string(const char* attribute) const {
  const std::string place = where(attribute);
  if (!has_attribute(id_.get(), attribute, place)) return std::nullopt;
  const Id id = open_attribute(id_.get(), attribute, place);
  const Id type(check(H5Aget_type(id.get()), Fault::input, place), H5Tclose);
  if (H5Tget_class(type.get()) != H5T_STRING)
    throw_input({.where = place, .expected = "a string attribute", .found = "another type"});
  if (H5Tis_variable_str(type.get()) > 0) {
    char* text = nullptr;
    check(H5Aread(id.get(), type.get(), &text), Fault::input, place);
    std::string value = text == nullptr ? "" : text;
    if (text != nullptr) H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type.get()), '\0');
  check(H5Aread(id.get(), type.get(), value.data()), Fault::input, place);
  value.resize(value.find('\0') == std::string::npos ? value.size() : value.find('\0'));
  if (H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD) value.resize(value.find_last_not_of(' ') + 1);
  return value;
}

std::string File::get_string(const char* attribute) const {
  auto value = find_string(attribute);
  if (!value) throw_missing(where(attribute), "a string attribute");
  return *std::move(value);
}

void File::put(const char* attribute, hid_t type, const void* value) const {
  const std::string place = where(attribute);
  const Id space(check(H5Screate(H5S_SCALAR), fault_, place), H5Sclose);
  const Id id(
      check(H5Acreate2(id_.get(), attribute, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), fault_, place),
      H5Aclose);
  check(H5Awrite(id.get(), type, value), fault_, place);
}

void File::put_int32(const char* attribute, std::int64_t value) const {
  const auto narrow = static_cast<std::int32_t>(value);
  if (narrow != value)
    throw Error(
        fault_,
        {.where = where(attribute), .expected = "a value that fits 32 bits", .found = std::to_string(value)});
  put(attribute, H5T_NATIVE_INT32, &narrow);
}

void File::put_int64(const char* attribute, std::int64_t value) const {
  put(attribute, H5T_NATIVE_INT64, &value);
}

void File::put_string(const char* attribute, const std::string& value) const {
  put(attribute, string_type(value.size()).get(), value.c_str());
}

Dataset File::dataset(const std::string& object) const {
  const std::string place = where("/" + object);
  if (!has(object)) throw_missing(place, "a dataset");
  Id id(check(H5Oopen(id_.get(), object.c_str(), H5P_DEFAULT), fault_, place), H5Oclose);
  if (H5Iget_type(id.get()) != H5I_DATASET)
    throw_input({.where = place, .expected = "a dataset", .found = "another kind of object"});
  return {std::move(id), place, fault_};
}

Dataset File::create(const std::string& object, hid_t type, const std::vector<std::int64_t>& shape,
                     const Storage& storage) const {
  const std::string place = where("/" + object);
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const Id space(check(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), fault_, place),
                 H5Sclose);
  const Id links = property_list(H5P_LINK_CREATE, place);
  check(H5Pset_create_intermediate_group(links.get(), 1), fault_, place);
  const Id creation = property_list(H5P_DATASET_CREATE, place);
  check(H5Pset_obj_track_times(creation.get(), false), fault_, place);
  // Every element is written, so filling first would only write twice.
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), fault_, place);
  if (storage.chunk.empty()) {
    check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), fault_, place);
  } else {
    check(H5Pset_chunk(creation.get(), static_cast<int>(storage.chunk.size()), storage.chunk.data()), fault_,
          place);
    if (storage.deflate) {
      check(H5Pset_shuffle(creation.get()), fault_, place);
      check(H5Pset_deflate(creation.get(), 1), fault_, place);
    }
  }
  return {Id(check(H5Dcreate2(id_.get(), object.c_str(), type, space.get(), links.get(), creation.get(),
                              H5P_DEFAULT),
                   fault_, place),
             H5Dclose),
          place, fault_};
}

}  // namespace relibra::io::h5
