//! The engine, its RNICs, and its connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

use smc_lab::netlink::smc::Carried;
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::event::CloseReason;
use smc_proto::id::{ConnId, GroupId};
use smc_proto::storage::Owned;
use smc_proto::time::Instant;
use smc_proto::wire::types::BufferSize;
use smc_transport_verbs::binding::Binding;
use smc_transport_verbs::paths::{KernelRoutes, Surroundings};
use smc_transport_verbs::rdma::RoceDevice;

/// All of it, behind one lock.
pub(crate) struct Host {
    pub(crate) engine: Endpoint<Owned>,
    pub(crate) binding: Binding<RoceDevice>,
    pub(crate) surroundings: Surroundings,
    pub(crate) entries: HashMap<ConnId, Entry>,
    /// Groups that are up.
    pub(crate) groups: Vec<GroupId>,
    origin: std::time::Instant,
}

/// A connection.
pub(crate) struct Entry {
    pub(crate) tcp: Arc<TcpStream>,
    pub(crate) local: IpAddr,
    /// Nothing more is read from TCP for the engine.
    pub(crate) silent: bool,
    /// What carries it, once that is decided.
    pub(crate) carried: Option<Carried>,
    /// How it ended.
    pub(crate) closed: Option<CloseReason>,
}

impl Host {
    pub(crate) fn new(
        engine: Endpoint<Owned>,
        binding: Binding<RoceDevice>,
        surroundings: Surroundings,
    ) -> Self {
        Self {
            engine,
            binding,
            surroundings,
            entries: HashMap::new(),
            groups: Vec::new(),
            origin: std::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let nanos = self.origin.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Takes a TCP connection in, whose SYN and SYN-ACK had the option or not.
    pub(crate) fn enter(
        &mut self,
        tcp: Arc<TcpStream>,
        is_client: bool,
        option: bool,
        buffers: Option<u32>,
    ) -> io::Result<ConnId> {
        let (local, peer) = (tcp.local_addr()?.ip(), tcp.peer_addr()?.ip());
        let subnets = self.surroundings.subnets(local).unwrap_or_default();
        let mut options = ConnOptions::new(subnets);
        options.option_negotiated = option;
        options.vlan = self.surroundings.vlan(local);
        options.ipv4 = local.to_canonical().is_ipv4();
        // As the kernel's AF_SMC reads by default.
        options.urgent_inline = false;
        options.receive_buffer = buffers.map(BufferSize::at_least);
        options.send_buffer = buffers.map(BufferSize::at_least);
        let now = self.now();
        let conn = if is_client {
            let paths = self.surroundings.client(local, peer, &KernelRoutes);
            self.engine.connect(now, options, &paths[..])
        } else {
            self.engine.listen(now, options)
        };
        let conn = conn.map_err(|error| io::Error::other(error.to_string()))?;
        let entry = Entry {
            tcp,
            local,
            silent: false,
            carried: None,
            closed: None,
        };
        self.entries.insert(conn, entry);
        Ok(conn)
    }
}
