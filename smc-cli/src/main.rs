//! The `smcx` command.

fn main() {}
