//! A device of libibverbs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use smc_proto::wire::types::{Psn, Qpn, RKey, RToken};

use super::Unavailable;
use super::sys::{Channel, Context, DeviceList, QueuePair, Region};
use crate::memory::Memory;
use crate::pnet::PnetId;
use crate::ports::Port;
use crate::rnic::{
    Access, Connect, DeviceEvent, Piece, PostError, QueuePairFacts, QueuePairSpec, Rnic, RnicError,
    SendRequest, WorkCompletion,
};

/// An RNIC, opened. It can be closed once everything made of it is gone.
pub struct RoceDevice {
    name: String,
    context: Arc<Context>,
    channel: Arc<Channel>,
}

impl RoceDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn open(name: &str) -> Result<Self, Unavailable> {
        let list = DeviceList::new().map_err(Unavailable::listing)?;
        let opened = list.open(name).ok_or_else(|| Unavailable::NotFound {
            device: name.to_owned(),
        })?;
        let unusable = |cause| Unavailable::of(name, cause);
        let context = Arc::new(opened.map_err(unusable)?);
        let channel = Channel::new(context.clone()).map_err(unusable)?;
        Ok(Self {
            name: name.to_owned(),
            context,
            channel: Arc::new(channel),
        })
    }

    /// Name of the RNIC.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ports of the RNIC as they are now.
    ///
    /// # Errors
    /// [`Unavailable`]: the RNIC may be gone.
    pub fn ports(&self) -> Result<Vec<Port>, Unavailable> {
        self.list_ports()
            .map_err(|cause| Unavailable::of(&self.name, cause))
    }

    fn list_ports(&self) -> io::Result<Vec<Port>> {
        let gids = self.context.gids()?;
        let path = Path::new("/sys/class/infiniband").join(&self.name);
        let port = |port: u8| {
            let attributes = self.context.port(port)?;
            let mine = gids.iter().filter(|(of, _)| *of == port);
            Ok(Port {
                device: self.name.clone(),
                port,
                active: attributes.active,
                ethernet: attributes.ethernet,
                mtu: attributes.mtu,
                pnet: PnetId::of_hardware(&path, usize::from(port - 1)),
                gids: mine.map(|(_, gid)| *gid).collect(),
            })
        };
        (1..=self.context.ports()?).map(port).collect()
    }
}

/// An address for memory, of which a peer learns nothing: not where it is in this
/// process, nor which other regions there are.
fn address() -> io::Result<u64> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    // The beginning of a page, as the memory is, with all of it below 2^47: some devices
    // do not take more.
    Ok((u64::from_ne_bytes(random) >> 18) & !0xfff)
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> RnicError {
    move |cause| RnicError::new(what, cause)
}

impl Rnic for RoceDevice {
    type QueuePair = QueuePair;
    type Region = Region;

    fn ports(&self) -> Result<Vec<Port>, RnicError> {
        self.list_ports().map_err(failed("list the ports"))
    }

    fn create_queue_pair(
        &self,
        spec: &QueuePairSpec,
    ) -> Result<(QueuePair, QueuePairFacts), RnicError> {
        let failed = failed("create a queue pair");
        let Ok(gid_index) = u8::try_from(spec.gid_index) else {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        };
        let queue_pair = QueuePair::new(&self.channel, spec, gid_index).map_err(&failed)?;
        queue_pair.initialize().map_err(&failed)?;
        let facts = QueuePairFacts {
            qpn: Qpn::new(queue_pair.number()),
            inline: queue_pair.inline(),
        };
        Ok((queue_pair, facts))
    }

    fn connect(&self, queue_pair: &QueuePair, to: &Connect) -> Result<(), RnicError> {
        let result = queue_pair.ready_to_receive(to);
        result.map_err(failed("bind the queue pair to the peer's"))
    }

    fn activate(&self, queue_pair: &QueuePair, psn: Psn) -> Result<(), RnicError> {
        let result = queue_pair.ready_to_send(psn.value());
        result.map_err(failed("make the queue pair ready to send"))
    }

    fn to_error(&self, queue_pair: &QueuePair) -> Result<(), RnicError> {
        let result = queue_pair.to_error();
        result.map_err(failed("flush the queue pair"))
    }

    fn register(
        &self,
        queue_pair: &QueuePair,
        memory: &Arc<Memory>,
        access: Access,
    ) -> Result<Region, RnicError> {
        let address = address().map_err(failed("draw an address"))?;
        let region = queue_pair.register(memory, access, address);
        region.map_err(failed("register memory"))
    }

    fn lockable(&self) -> Option<u64> {
        crate::locking::lockable()
    }

    fn lock_limit(&self) -> Option<u64> {
        crate::locking::limit()
    }

    fn token(&self, region: &Region) -> RToken {
        RToken {
            rkey: RKey(region.rkey()),
            address: region.base(),
        }
    }

    fn post_receive(
        &self,
        queue_pair: &QueuePair,
        number: u64,
        into: Piece<'_, Region>,
    ) -> Result<(), RnicError> {
        let result = queue_pair.post_receive(number, into);
        result.map_err(failed("post a receive"))
    }

    fn post_send(
        &self,
        queue_pair: &QueuePair,
        requests: &[SendRequest<'_, Region>],
    ) -> Result<(), PostError> {
        let result = queue_pair.post_send(requests);
        result.map_err(|(posted, cause)| PostError {
            posted,
            error: RnicError::new("post work", cause),
        })
    }

    fn poll(&self, queue_pair: &QueuePair, into: &mut [WorkCompletion]) -> usize {
        queue_pair.poll(into)
    }

    fn next_ready(&self) -> Option<u32> {
        self.channel.next_ready()
    }

    fn next_event(&self) -> Option<DeviceEvent> {
        loop {
            match self.context.next_event() {
                (Some(event), _) => return Some(event),
                (None, true) => {}
                (None, false) => return None,
            }
        }
    }

    fn completions_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    fn events_fd(&self) -> BorrowedFd<'_> {
        self.context.events_fd()
    }
}
