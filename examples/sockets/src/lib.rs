//! Ordinary programs on std, on tokio, on hyper, and on epoll. In each, the types of the sockets are
//! the only thing that is not as with TCP:
//!
//! | instead of | there is |
//! |---|---|
//! | `std::net::{TcpListener, TcpStream}` | `smc_sockets::{SmcListener, SmcStream}` |
//! | `tokio::net::{TcpListener, TcpStream}` | `smc_sockets::tokio::{SmcListener, SmcStream}` |
//!
//! Each program prints its address as `listening on ADDRESS` when it serves, and on the
//! error stream what carries each connection.
