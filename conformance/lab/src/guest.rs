//! The first process of a guest: it boots, and then executes orders.

mod boot;
mod jobs;
mod sockets;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, reboot};

use crate::netlink::smc::{self, Smc};
use crate::netlink::{rdma, route, xfrm};
use crate::orders::{Adjustment, Answer, Order};

/// Where answers go; each is one line.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    port: Arc<Mutex<File>>,
    /// Our own SMC, while it runs.
    ours: Arc<Mutex<Option<Pid>>>,
}

impl Channel {
    fn set_ours(&self, pid: Option<Pid>) {
        *self.ours.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    pub(crate) fn send(&self, answer: &Answer) {
        let line = serde_json::to_string(answer).unwrap_or_default();
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        // A broken port can only be reported to the console.
        if let Err(error) = writeln!(port, "{line}") {
            eprintln!("smc-lab-guest: answering: {error}");
        }
    }
}

/// Boots, executes orders, and switches the machine off.
///
/// # Errors
/// If the guest did not come up.
pub fn run() -> io::Result<()> {
    let port = boot::boot()?;
    let orders = BufReader::new(port.try_clone()?);
    let channel = Channel {
        port: Arc::new(Mutex::new(port)),
        ours: Arc::default(),
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    channel.send(&Answer::Ready {
        kernel: kernel.trim().to_owned(),
    });
    for line in orders.lines() {
        match serde_json::from_str(&line?) {
            Ok(Order::PowerOff) => break,
            Ok(order) => execute(&channel, order),
            Err(error) => eprintln!("smc-lab-guest: an order: {error}"),
        }
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

fn execute(channel: &Channel, order: Order) {
    match order {
        Order::Adjust(adjustment) => {
            channel.send(&Answer::Adjusted(
                adjust(&adjustment).map_err(|error| format!("{adjustment:?}: {error}")),
            ));
        }
        Order::Hold(session) => {
            let channel = channel.clone();
            thread::spawn(move || jobs::hold(&channel, &session));
        }
        Order::HoldOurs(session) => {
            let channel = channel.clone();
            thread::spawn(move || jobs::hold_ours(&channel, &session));
        }
        Order::KillOurs => {
            let ours = channel.ours.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Err(error)) = ours.map(|pid| kill_process(pid, Signal::KILL)) {
                eprintln!("smc-lab-guest: killing: {error}");
            }
        }
        Order::Run {
            command,
            input,
            output,
            limit,
        } => {
            let channel = channel.clone();
            thread::spawn(move || {
                let files = [input.as_deref(), output.as_deref()];
                jobs::run(&channel, &command, files, limit);
            });
        }
        Order::Count => {
            let counts = Smc::open().and_then(|smc| smc.counts());
            channel.send(&Answer::Counted(counts.map_err(|error| error.to_string())));
        }
        Order::Sockets => {
            let records = smc::records().map_err(|error| error.to_string());
            channel.send(&Answer::Sockets(records));
        }
        Order::PowerOff => {}
    }
}

fn adjust(adjustment: &Adjustment) -> io::Result<()> {
    match adjustment {
        Adjustment::Address(interface, address, prefix) => {
            route::add_address(interface, *address, *prefix)?;
            route::set_up(interface, true)
        }
        Adjustment::SecondAddress(interface, address, prefix) => {
            route::add_second_address(interface, *address, *prefix)?;
            route::set_up(interface, true)
        }
        Adjustment::RemoveAddress(interface, address, prefix) => {
            route::remove_address(interface, *address, *prefix)
        }
        Adjustment::BlockRoce(block) => xfrm::block_roce(*block),
        Adjustment::Link(interface, up) => route::set_up(interface, *up),
        Adjustment::AddRdma(device, interface) => rdma::add(device, interface),
        Adjustment::RemoveRdma(device) => rdma::remove(device),
        Adjustment::AddUeid(ueid) => {
            let smc = Smc::open()?;
            smc.add_ueid(ueid)?;
            // Its own dump is the proof that it was taken.
            match smc.ueids()?.contains(ueid) {
                true => Ok(()),
                false => Err(io::Error::other("the kernel does not list it")),
            }
        }
        Adjustment::FlushUeids => Smc::open()?.flush_ueids(),
        Adjustment::Sysctl(path, value) => std::fs::write(format!("/proc/sys/{path}"), value),
    }
}
