//! Bytes of applications: in order, urgent, and in any amount (RFC 7609 4).

mod direct;
mod gigabyte;
mod linux_urgent;
mod streams;
mod transmits;
mod urgent;
