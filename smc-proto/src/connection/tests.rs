//! Tests of the connection.

use super::*;

#[test]
fn sizes() {
    std::println!("Connection {} Work {} Record {}", size_of::<Connection>(), size_of::<Work>(), size_of::<NotifyRecord>());
}
