// A folder for one test, removed at its end.
#ifndef ADASUM_TESTS_CC_TEMPORARY_FOLDER_H_
#define ADASUM_TESTS_CC_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace adasum {
namespace test {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(mkdtemp(template_)) {}
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const char* path() const { return path_.c_str(); }

  // Writes a line to a file in it, and makes the folders that it is in.
  void Write(const std::string& name, const std::string& line) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
  }

 private:
  // mkdtemp puts a name that is free in the place of the X.
  char template_[32] = "/tmp/adasum_test.XXXXXX";
  const std::filesystem::path path_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_TEMPORARY_FOLDER_H_
