"""The names that Bazel 4's own files load from rules_java, as the native rules they stand for."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
