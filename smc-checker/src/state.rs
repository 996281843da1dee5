//! What is known of the conversations: only what the capture contained.

pub(crate) mod connection;
pub(crate) mod flow;
pub(crate) mod group;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod ring;
pub(crate) mod rmb;
pub(crate) mod side;
pub(crate) mod stream;
