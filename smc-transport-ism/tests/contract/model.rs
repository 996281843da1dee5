//! A model of a machine with ISM functions. It takes commands and stores as a function
//! does and answers as one, and it stops the test at anything a function would not
//! understand: a driver's mistake is a panic here, a refusal is an error.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use smc_transport_ism::device::{IsmDevice, IsmError, IsmReport};
use smc_transport_ism::pci::{COMMANDS, Device, DeviceMemory, MOVES, PciAccess};

use crate::lab::{Lab, joined, next};

/// Devices over modelled functions.
pub(crate) struct Model;

impl Lab for Model {
    type Device = Device<Function>;
    const REPORTS_WITHDRAWALS: bool = false;

    fn devices<const N: usize>() -> [Self::Device; N] {
        let machine = Rc::new(RefCell::new(Machine::default()));
        core::array::from_fn(|at| {
            let function = Function {
                machine: Rc::clone(&machine),
                gid: 0x1000 + at as u64,
            };
            machine
                .borrow_mut()
                .functions
                .insert(function.gid, State::default());
            Device::open(function, 0x07c0).unwrap()
        })
    }
}

/// A function, as its driver reaches it.
pub(crate) struct Function {
    machine: Rc<RefCell<Machine>>,
    gid: u64,
}

#[derive(Default)]
struct Machine {
    functions: BTreeMap<u64, State>,
    tokens: u32,
}

/// A function's inside.
#[derive(Default)]
struct State {
    /// What BAR 2 holds, and whether a payload waits for its header.
    command: Vec<u8>,
    payload: usize,
    /// Memory the function may use, by where it finds it.
    mapped: BTreeMap<u64, DeviceMemory>,
    summary: Option<DeviceMemory>,
    events: Option<DeviceMemory>,
    /// Events written since the event bit was last seen clear, and the next one's place.
    unseen: u32,
    next_event: u32,
    vlans: Vec<u64>,
    dmbs: BTreeMap<u64, Dmb>,
}

struct Dmb {
    memory: DeviceMemory,
    place: u32,
    peer: u64,
}

const PAGE: u64 = 4096;

fn refused() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl PciAccess for Function {
    fn store(&mut self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(
            !bytes.is_empty() && bytes.len() <= PAGE as usize,
            "{} bytes",
            bytes.len()
        );
        assert_eq!(
            offset / PAGE,
            (offset + bytes.len() as u64 - 1) / PAGE,
            "crosses a page"
        );
        let mut machine = self.machine.borrow_mut();
        match bar {
            MOVES => machine.store(self.gid, offset, bytes),
            COMMANDS => {
                machine.command(self.gid, offset, bytes);
                Ok(())
            }
            _ => panic!("BAR {bar}"),
        }
    }

    fn load(&mut self, bar: u8, offset: u64, into: &mut [u8]) -> io::Result<()> {
        assert_eq!((bar, offset % 8, into.len() % 8), (COMMANDS, 0, 0));
        let machine = self.machine.borrow();
        let from = &machine.functions[&self.gid].command[offset as usize..];
        into.copy_from_slice(&from[..into.len()]);
        Ok(())
    }

    fn map(&mut self, memory: &DeviceMemory) -> io::Result<u64> {
        let mut machine = self.machine.borrow_mut();
        let mapped = &mut machine.functions.get_mut(&self.gid).unwrap().mapped;
        let end = |(at, memory): (&u64, &DeviceMemory)| at + memory.len() as u64;
        let at = mapped.last_key_value().map_or(1 << 32, end);
        mapped.insert(at, memory.clone());
        Ok(at)
    }

    fn unmap(&mut self, memory: &DeviceMemory, at: u64) -> io::Result<()> {
        let mut machine = self.machine.borrow_mut();
        let state = machine.functions.get_mut(&self.gid).expect("a function");
        let was = state.mapped.remove(&at).expect("mapped");
        assert_eq!(was.address(), memory.address());
        let used = |of: &DeviceMemory| of.address() == memory.address();
        assert!(
            !state.dmbs.values().any(|dmb| used(&dmb.memory)),
            "in use as a DMB"
        );
        assert!(
            !state.summary.iter().chain(&state.events).any(used),
            "in use"
        );
        Ok(())
    }
}

impl Machine {
    /// A move: to the owner of the token, if the DMB is for this function.
    fn store(&mut self, from: u64, address: u64, bytes: &[u8]) -> io::Result<()> {
        let token = address & !0xffff_ffff;
        let element = (address >> 24) as u32 & 0xff;
        let (signal, offset) = (address & (1 << 23) != 0, (address & 0x7f_ffff) as u32);
        assert!(element < 16, "element {element}");
        let owner = self
            .functions
            .values_mut()
            .find(|state| state.dmbs.contains_key(&token));
        let owner = owner.ok_or_else(refused)?;
        let dmb = &owner.dmbs[&token];
        if dmb.peer != from || offset as usize + bytes.len() > dmb.memory.len() {
            return Err(refused());
        }
        dmb.memory.write(offset, bytes).unwrap();
        if signal {
            let summary = owner.summary.as_ref().expect("registered before any DMB");
            let place = dmb.place;
            let shift = if place % 2 == 0 { 16 } else { 0 };
            summary
                .set_bits(256 + place / 2 * 4, (0x8000 >> element) << shift)
                .unwrap();
            summary
                .set_bits(4 + place / 32 * 4, 0x8000_0000 >> (place % 32))
                .unwrap();
            summary.set_bits(0, 1 << 31).unwrap();
        }
        Ok(())
    }

    /// Bytes of a command: the payload, then the header.
    fn command(&mut self, from: u64, offset: u64, bytes: &[u8]) {
        let state = self.functions.get_mut(&from).expect("a function");
        state.command.resize(PAGE as usize, 0);
        if offset == 8 {
            assert_eq!(bytes.len() % 8, 0, "a payload of whole units");
            state.command[8..8 + bytes.len()].copy_from_slice(bytes);
            state.payload = bytes.len();
            return;
        }
        assert_eq!((offset, bytes.len()), (0, 8), "a header");
        let (number, zero) = (word(bytes, 0), &bytes[4..6]);
        let len = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        let payload = std::mem::take(&mut state.payload);
        assert_eq!(
            (zero, len),
            (&[0, 0][..], 8 + payload),
            "command {number:x}"
        );
        let request = state.command[8..8 + payload].to_vec();
        let wanted = match number {
            0x01 | 0x04 | 0x05 | 0x0b => 8,
            0x02 | 0x09 => 16,
            0x0a => 32,
            0x0e => 24,
            0x03 | 0x11 | 0x12 => 0,
            _ => panic!("command {number:x}"),
        };
        assert_eq!(payload, wanted, "command {number:x}");
        let (code, answer) = match self.run(from, number, &request) {
            Ok(answer) => (0u16, answer),
            Err(code) => (code, 0),
        };
        let state = self.functions.get_mut(&from).expect("still there");
        state.command[4..6].copy_from_slice(&code.to_be_bytes());
        if matches!(number, 0x03 | 0x0a) {
            state.command[8..16].copy_from_slice(&answer.to_be_bytes());
        }
    }

    fn run(&mut self, from: u64, number: u32, request: &[u8]) -> Result<u64, u16> {
        const NO: u16 = 4;
        match number {
            0x01 => {
                let state = self.functions.get_mut(&from).ok_or(NO)?;
                state.summary = Some(state.whole_page(long(request, 0)));
            }
            0x02 => {
                assert_eq!(long(request, 8), 512, "an event queue's length");
                let state = self.functions.get_mut(&from).ok_or(NO)?;
                let queue = state.whole_page(long(request, 0));
                let mut header = [0; 32];
                queue.read(0, &mut header).unwrap();
                assert_eq!([0, 8, 16, 24].map(|at| long(&header, at)), [0, 512, 32, 0]);
                state.events = Some(queue);
            }
            0x03 => return Ok(from),
            0x04 => {
                let vlan = long(request, 0);
                let vlans = &mut self.functions.get_mut(&from).ok_or(NO)?.vlans;
                if vlans.len() >= 65 {
                    return Err(NO);
                }
                vlans.push(vlan);
            }
            0x05 => {
                let vlans = &mut self.functions.get_mut(&from).ok_or(NO)?.vlans;
                let at = vlans
                    .iter()
                    .position(|at| *at == long(request, 0))
                    .ok_or(NO)?;
                vlans.remove(at);
            }
            0x09 => self.reach(from, long(request, 0), word(request, 8), word(request, 12))?,
            0x0a => return self.register(from, request),
            0x0b => {
                let state = self.functions.get_mut(&from).ok_or(NO)?;
                state.dmbs.remove(&long(request, 0)).ok_or(NO)?;
            }
            0x0e => {
                assert_eq!(
                    word(request, 8),
                    1,
                    "with an interrupt, or no driver reads it"
                );
                let (peer, code) = (long(request, 0), word(request, 12));
                self.reach(from, peer, 0, 0)?;
                let peer = self.functions.get_mut(&peer).ok_or(NO)?;
                return peer.event(2, code, from, long(request, 16));
            }
            0x11 => {
                let state = self.functions.get_mut(&from).ok_or(NO)?;
                assert!(
                    state.dmbs.is_empty() && state.events.is_none(),
                    "the last to go"
                );
                state.summary = None;
                for state in self.functions.values_mut() {
                    let _ = state.event(1, 0, from, 0);
                }
            }
            0x12 => self.functions.get_mut(&from).ok_or(NO)?.events = None,
            _ => unreachable!(),
        }
        Ok(0)
    }

    fn reach(&self, from: u64, peer: u64, valid: u32, vlan: u32) -> Result<(), u16> {
        assert!(valid <= 1 && (valid == 1 || vlan == 0));
        let there = self
            .functions
            .get(&peer)
            .is_some_and(|state| state.summary.is_some());
        let on_it = |gid| self.functions[&gid].vlans.contains(&vlan.into());
        let joined = valid == 0 || (there && on_it(from) && on_it(peer));
        if there && joined { Ok(()) } else { Err(2) }
    }

    fn register(&mut self, from: u64, request: &[u8]) -> Result<u64, u16> {
        let (at, len, place) = (long(request, 0), word(request, 8), word(request, 12));
        let peer = long(request, 24);
        self.reach(from, peer, word(request, 16), word(request, 20))?;
        self.tokens += 1;
        let token = u64::from(self.tokens.wrapping_mul(0x9e37_79b1)) << 32;
        let state = self.functions.get_mut(&from).ok_or(1u16)?;
        let memory = state.mapped.get(&at).expect("mapped").clone();
        assert_eq!((memory.len(), len % 4096), (len as usize, 0));
        assert!(
            len <= 1 << 20 && (32..1920).contains(&place),
            "{len} bytes at {place}"
        );
        assert!(
            state.dmbs.values().all(|dmb| dmb.place != place),
            "two DMBs at {place}"
        );
        let mut bytes = vec![1; len as usize];
        memory.read(0, &mut bytes).unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == 0),
            "zero before it is announced"
        );
        state.dmbs.insert(
            token,
            Dmb {
                memory,
                place,
                peer,
            },
        );
        Ok(token)
    }
}

impl State {
    fn whole_page(&self, at: u64) -> DeviceMemory {
        let memory = self.mapped.get(&at).expect("mapped");
        assert_eq!((at % PAGE, memory.len()), (0, PAGE as usize));
        memory.clone()
    }

    /// Writes an event; refused when as many are unseen as can be distinguished from none.
    fn event(&mut self, kind: u32, code: u32, token: u64, info: u64) -> Result<u64, u16> {
        let (Some(queue), Some(summary)) = (&self.events, &self.summary) else {
            return Err(2);
        };
        if summary.set_bits(0, 0).unwrap() & (1 << 30) == 0 {
            self.unseen = 0;
        }
        // One place is kept for a device that vanishes.
        if self.unseen >= if kind == 1 { 14 } else { 13 } {
            return Err(8);
        }
        self.unseen += 1;
        let mut entry = [0; 32];
        entry[..4].copy_from_slice(&kind.to_be_bytes());
        entry[4..8].copy_from_slice(&code.to_be_bytes());
        entry[8..16].copy_from_slice(&token.to_be_bytes());
        entry[24..].copy_from_slice(&info.to_be_bytes());
        queue.write(32 + self.next_event * 32, &entry).unwrap();
        self.next_event = (self.next_event + 1) % 15;
        let index = if self.next_event == 0 {
            15
        } else {
            self.next_event
        };
        queue.write(0, &u64::from(index).to_be_bytes()).unwrap();
        summary.set_bits(0, 1 << 30).unwrap();
        summary.set_bits(0, 1 << 31).unwrap();
        Ok(0)
    }
}

/// The GID of a function may be another one's later, which knows none of its DMBs.
#[test]
fn what_is_attached_of_a_function_that_is_gone_stays_out_of_reach() {
    let [mut staying, mut leaving] = Model::devices();
    let (_, _, remote) = joined(&mut staying, &mut leaving, 16384);
    let gid = leaving.facts().gid;
    drop(leaving);
    assert!(matches!(next(&mut staying), IsmReport::Event(_)));
    let machine = Rc::clone(&staying.access().machine);
    {
        let functions = &mut machine.borrow_mut().functions;
        functions.insert(gid.gid, State::default());
    }
    let function = Function {
        machine,
        gid: gid.gid,
    };
    let _later = Device::open(function, 0x07c0).unwrap();
    assert!(staying.query_reach(gid, None));
    let moved = staying.move_data(remote, 0, 0, &[1]);
    assert_eq!(moved, Err(IsmError::Unreachable));
}
