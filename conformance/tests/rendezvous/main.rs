//! How two sides agree on SMC over a TCP connection, or decline it (RFC 7609 3.1 to 3.5).

mod client;
mod crossing;
mod decline;
mod decline_resources;
mod events;
mod groups;
mod links;
mod proposal_paths;
mod refusals;
mod rules;
mod server;
mod timeouts;
mod traps_clc;
mod version_2;
mod version_2_rules;
mod waits;
