//! Small programs in C, one for each call and each known failure of libraries that are
//! preloaded, and a test that runs each of them with the library and without and compares
//! what they print. `programs/case.h` describes the programs.
