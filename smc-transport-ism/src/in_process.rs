//! ISM devices that share a machine within one process: for tests, and for embedding
//! both ends in one program.
//!
//! No thread, no clock and no randomness: the same calls give the same reports and
//! the same tokens. A [`Machine`] can be [forked](Machine::fork) with all its devices,
//! so that states can be explored.
//!
//! ```
//! use smc_transport_ism::device::{Gid128, IsmDevice, IsmReport};
//! use smc_transport_ism::in_process::Machine;
//!
//! let machine = Machine::new(1);
//! let [mut ann, mut bob] = [1, 2].map(|gid| machine.add(Gid128 { gid, ext: 0 }).unwrap());
//!
//! // Bob lets Ann write 16 KiB.
//! let dmb = bob.register_dmb(16384, ann.facts().gid, None)?;
//! let Some(IsmReport::DmbRegistered { token, .. }) = bob.poll() else { panic!() };
//!
//! // Ann, who knows the token from a CLC message, moves bytes, then a CDC message with a signal.
//! let remote = ann.attach_dmb(bob.facts().gid, token, 16384)?;
//! ann.move_data(remote, 0, 32, b"hello")?;
//! ann.move_cdc(remote, 0, 0, &[0xfe; 32], true)?;
//!
//! assert!(matches!(bob.poll(), Some(IsmReport::Signalled { mask: 0x8000, .. })));
//! let mut bytes = [0; 5];
//! bob.read(dmb, 32, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), smc_transport_ism::device::IsmError>(())
//! ```

mod moves;
mod state;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, RemoteDmb, VlanId,
};
use state::State;

/// What the devices share.
#[derive(Clone, Debug)]
pub struct Machine {
    state: Arc<Mutex<State>>,
}

impl Machine {
    /// A machine without devices; its tokens follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(seed))),
        }
    }

    /// Adds a device, unless there is one with this GID.
    #[must_use]
    pub fn add(&self, gid: Gid128) -> Option<Device> {
        self.lock().add(gid).then(|| Device {
            machine: self.clone(),
            gid,
        })
    }

    /// A copy of the machine and of all its devices, in order of their GIDs. The two
    /// share nothing, and every handle is good in both.
    #[must_use]
    pub fn fork(&self) -> (Self, Vec<Device>) {
        let state = self.lock().clone();
        let gids: Vec<_> = state.gids().collect();
        let machine = Self {
            state: Arc::new(Mutex::new(state)),
        };
        let devices = gids
            .into_iter()
            .map(|gid| Device {
                machine: machine.clone(),
                gid,
            })
            .collect();
        (machine, devices)
    }

    /// Hashes all devices: their memory, and what they are yet to report.
    pub fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        self.lock().hash(hasher);
    }

    /// How many DMBs the device with this GID has registered, and how many of its peers'
    /// it has attached.
    #[must_use]
    pub fn in_use(&self, gid: Gid128) -> [usize; 2] {
        self.lock().in_use(gid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No call leaves the state half changed, so a panic elsewhere spoils nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device of a [`Machine`]. Dropping it takes it away: its peers are notified.
#[derive(Debug)]
pub struct Device {
    machine: Machine,
    gid: Gid128,
}

impl Drop for Device {
    fn drop(&mut self) {
        self.machine.lock().remove(self.gid);
    }
}

impl IsmDevice for Device {
    fn facts(&self) -> DeviceFacts {
        state::facts(self.gid)
    }

    fn register_dmb(
        &mut self,
        len: u32,
        peer: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<Dmb, IsmError> {
        self.machine.lock().register(self.gid, len, peer, vlan)
    }

    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        self.machine.lock().unregister(self.gid, dmb)
    }

    fn clear_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        self.machine.lock().clear(self.gid, dmb)
    }

    fn attach_dmb(
        &mut self,
        peer: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError> {
        self.machine.lock().attach(self.gid, peer, token, len)
    }

    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        self.machine.lock().detach(self.gid, remote)
    }

    fn query_reach(&mut self, peer: Gid128, vlan: Option<VlanId>) -> bool {
        self.machine.lock().reach(self.gid, peer, vlan).is_ok()
    }

    fn add_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        self.machine.lock().add_vlan(self.gid, vlan)
    }

    fn del_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        self.machine.lock().del_vlan(self.gid, vlan)
    }

    fn move_data(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError> {
        self.machine
            .lock()
            .move_data(self.gid, remote, element, offset, source)
    }

    fn move_cdc(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError> {
        self.machine
            .lock()
            .move_cdc(self.gid, remote, element, offset, cdc, signal)
    }

    fn signal_event(
        &mut self,
        peer: Gid128,
        vlan: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError> {
        self.machine
            .lock()
            .signal_event(self.gid, peer, vlan, code, info)
    }

    fn poll(&mut self) -> Option<IsmReport> {
        self.machine.lock().poll(self.gid)
    }

    fn read(&self, dmb: Dmb, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        self.machine.lock().read(self.gid, dmb, offset, into)
    }

    fn read_cdc(&self, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError> {
        self.machine.lock().read_cdc(self.gid, dmb, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use crate::device::{Gid128, IsmDevice, IsmError, IsmReport};

    const GIDS: [Gid128; 2] = [Gid128 { gid: 1, ext: 0 }, Gid128 { gid: 2, ext: 0 }];

    #[test]
    fn a_fork_goes_its_own_way() {
        let machine = Machine::new(1);
        let [mut one, mut two] = GIDS.map(|gid| machine.add(gid).unwrap());
        assert!(machine.add(GIDS[0]).is_none());
        let dmb = two.register_dmb(4096, GIDS[0], None).unwrap();
        let Some(IsmReport::DmbRegistered { token, .. }) = two.poll() else {
            panic!()
        };
        let remote = one.attach_dmb(GIDS[1], token, 4096).unwrap();
        one.move_cdc(remote, 0, 0, &[1; 32], true).unwrap();

        let (_machine, mut forks) = machine.fork();
        assert_eq!(forks[1].poll(), two.poll());
        forks[0].move_cdc(remote, 0, 0, &[2; 32], true).unwrap();
        assert_eq!((two.poll(), two.read_cdc(dmb, 0)), (None, Ok([1; 32])));
        assert!(
            matches!(forks[1].poll(), Some(IsmReport::Signalled { cdc, .. }) if cdc == [2; 32])
        );
        drop(forks);
        assert_eq!(one.poll(), None, "only the fork's devices have gone");
    }

    #[test]
    fn a_dmb_that_was_cleared_is_zero_and_can_be_moved_to() {
        let machine = Machine::new(1);
        let [mut one, mut two] = GIDS.map(|gid| machine.add(gid).unwrap());
        let dmb = two.register_dmb(4096, GIDS[0], None).unwrap();
        let Some(IsmReport::DmbRegistered { token, .. }) = two.poll() else {
            panic!()
        };
        let remote = one.attach_dmb(GIDS[1], token, 4096).unwrap();
        one.move_cdc(remote, 0, 0, &[1; 32], true).unwrap();
        two.clear_dmb(dmb).unwrap();
        assert_eq!((two.poll(), two.read_cdc(dmb, 0)), (None, Ok([0; 32])));
        one.move_cdc(remote, 0, 0, &[2; 32], true).unwrap();
        let Some(IsmReport::Signalled { cdc, .. }) = two.poll() else {
            panic!()
        };
        assert_eq!(cdc, [2; 32]);
        two.unregister_dmb(dmb).unwrap();
        assert_eq!(two.clear_dmb(dmb), Err(IsmError::Stale));
    }

    #[test]
    fn the_same_seed_gives_the_same_tokens() {
        let tokens = |seed| {
            let machine = Machine::new(seed);
            let [_one, mut two] = GIDS.map(|gid| machine.add(gid).unwrap());
            [(); 3].map(|()| two.register_dmb(4096, GIDS[0], None).map(|_| two.poll()))
        };
        assert_eq!(tokens(1), tokens(1));
        assert_ne!(tokens(1), tokens(2));
    }

    #[test]
    fn a_device_keeps_as_many_events_as_the_queue_of_a_function_has() {
        let machine = Machine::new(1);
        let [mut one, mut two] = GIDS.map(|gid| machine.add(gid).unwrap());
        for _ in 0..2 {
            for info in 0..15 {
                assert_eq!(one.signal_event(GIDS[1], None, 1, info), Ok(()));
            }
            let more = one.signal_event(GIDS[1], None, 1, 15);
            assert_eq!(more, Err(IsmError::Busy));
            assert_eq!(core::iter::from_fn(|| two.poll()).count(), 15);
        }
    }
}
