//! A guest: QEMU without acceleration, so that it runs wherever this program does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::answers::Answers;
use super::monitor::Monitor;
use super::packages::Software;
use super::{Trouble, failed};
use crate::orders::{Adjustment, Answer, Order, PORT_NAME};

/// The network devices of a guest, as QEMU names them. The first sees what passes the
/// second one, too.
pub(crate) const DEVICES: [&str; 2] = ["net0", "net1"];
/// Longest boot of a guest. Minutes: the machine may be busy.
const BOOT: Duration = Duration::from_secs(180);
/// For everything that a guest does at once.
const ADJUST: Duration = Duration::from_secs(60);

/// What both guests of a pair have in common.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    /// Kernel and QEMU.
    pub(crate) software: Software,
    /// The initial file system.
    pub(crate) image: PathBuf,
    /// What guests see as `/share`.
    pub(crate) share: PathBuf,
    /// Where sockets are made; a short path.
    pub(crate) sockets: PathBuf,
    /// The kernel's module of SMC.
    pub(crate) smc: Vec<u8>,
}

/// A running guest.
#[derive(Debug)]
pub(crate) struct Guest {
    name: &'static str,
    process: Child,
    orders: UnixStream,
    answers: Answers,
    pub(crate) monitor: Monitor,
    console: PathBuf,
    kernel: String,
}

impl Guest {
    /// Starts a guest. The one whose `first` is true makes the wire that the other one
    /// connects to.
    pub(crate) fn start(
        blueprint: &Blueprint,
        name: &'static str,
        first: bool,
        console: PathBuf,
    ) -> Result<Self, Trouble> {
        let socket = |kind: &str| blueprint.sockets.join(format!("{kind}-{name}"));
        let (port, monitor) = (socket("port"), socket("monitor"));
        for path in [&port, &monitor] {
            let _ = fs::remove_file(path);
        }
        let process = command(blueprint, name, first, &console, &port, &monitor)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(console.with_extension("qemu")).map_err(failed("a log"))?)
            .spawn()
            .map_err(failed(blueprint.software.qemu.display()))?;
        let mut process = Reaped(Some(process));
        let orders = connected(&port, &mut process)?;
        let monitor = Monitor::connect(&monitor)?;
        let reader = BufReader::new(orders.try_clone().map_err(failed("a guest's port"))?);
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str(&line) else {
                    continue;
                };
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let process = process
            .0
            .take()
            .ok_or_else(|| Trouble::Failed("no process".into()))?;
        let kernel = String::new();
        Ok(Self {
            name,
            process,
            orders,
            answers: Answers::new(answers),
            monitor,
            console,
            kernel,
        })
    }

    /// Waits until it is up; its kernel's release.
    pub(crate) fn ready(&mut self) -> Result<&str, Trouble> {
        match self.answer(BOOT)? {
            Answer::Ready { kernel } => self.kernel = kernel,
            other => return Err(self.surprise(&other)),
        }
        Ok(&self.kernel)
    }

    /// Gives an order.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), Trouble> {
        let line = serde_json::to_string(order).map_err(failed("an order"))?;
        writeln!(self.orders, "{line}").map_err(failed(format!("guest {}", self.name)))
    }

    /// The next answer.
    pub(crate) fn answer(&mut self, timeout: Duration) -> Result<Answer, Trouble> {
        let answer = self.answers.next(timeout);
        answer.map_err(|error| self.silent(error))
    }

    /// The next answer, if it comes within this time.
    pub(crate) fn answer_within(&mut self, time: Duration) -> Result<Option<Answer>, Trouble> {
        match self.answers.next(time) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(self.silent(error)),
        }
    }

    fn silent(&self, error: RecvTimeoutError) -> Trouble {
        let name = self.name;
        Trouble::Failed(match error {
            RecvTimeoutError::Timeout => format!("guest {name} sends nothing"),
            RecvTimeoutError::Disconnected => format!("guest {name} is gone"),
        })
    }

    /// Changes something in the guest.
    pub(crate) fn adjust(&mut self, adjustment: Adjustment) -> Result<(), Trouble> {
        self.order(&Order::Adjust(adjustment))?;
        let answer = self.answers.adjusted(ADJUST);
        match answer.map_err(|error| self.silent(error))? {
            Answer::Adjusted(result) => {
                result.map_err(|error| Trouble::Failed(format!("guest {}: {error}", self.name)))
            }
            other => Err(self.surprise(&other)),
        }
    }

    /// Switches it off as by a power failure.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// An answer that was not the one expected.
    pub(crate) fn surprise(&self, answer: &Answer) -> Trouble {
        Trouble::Failed(format!("guest {}: unexpected answer {answer:?}", self.name))
    }

    /// The file with all that its kernel logged.
    pub(crate) fn console(&self) -> &Path {
        &self.console
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.order(&Order::PowerOff);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process that does not outlive a start that failed.
struct Reaped(Option<Child>);

impl Drop for Reaped {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// QEMU makes its sockets a moment after its start.
fn connected(path: &Path, process: &mut Reaped) -> Result<UnixStream, Trouble> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > end => return Err(failed("QEMU's sockets")(error)),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
        if let Some(process) = &mut process.0
            && let Ok(Some(status)) = process.try_wait()
        {
            return Err(Trouble::Failed(format!("QEMU ended at once: {status}")));
        }
    }
}

fn command(
    blueprint: &Blueprint,
    name: &str,
    first: bool,
    console: &Path,
    port: &Path,
    monitor: &Path,
) -> Command {
    let software = &blueprint.software;
    let mut command = Command::new(&software.qemu);
    if let Some(root) = &software.qemu_root {
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        command
            .env("LD_LIBRARY_PATH", &libraries)
            .env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command.arg("-L").arg(root.join("usr/share/qemu"));
        command.arg("-L").arg(root.join("usr/share/seabios"));
    }
    let wire = blueprint.sockets.join("wire");
    let side = if first { "on" } else { "off" };
    let digit = if first { 1 } else { 2 };
    let shown = |path: &Path| path.display().to_string();
    command
        .args([
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
            "-m",
            "768",
            "-smp",
            "1",
        ])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args(["-name", &format!("smc-lab-{name}")])
        .arg("-kernel")
        .arg(&software.kernel)
        .arg("-initrd")
        .arg(&blueprint.image)
        // On a busy machine the guest's clocks stand still for longer than it checks them.
        .args([
            "-append",
            "console=ttyS0 panic=-1 rdinit=/init mitigations=off no_timer_check",
        ])
        .args(["-serial", &format!("file:{}", shown(console))])
        .args([
            "-qmp",
            &format!("unix:{},server=on,wait=off", shown(monitor)),
        ])
        .args([
            "-chardev",
            &format!("socket,id=port,path={},server=on,wait=off", shown(port)),
        ])
        .args(["-device", "virtio-serial-pci"])
        .args([
            "-device",
            &format!("virtserialport,chardev=port,name={PORT_NAME}"),
        ])
        .args([
            "-virtfs",
            &format!(
                "local,path={},mount_tag=share,security_model=none",
                shown(&blueprint.share)
            ),
        ])
        .args([
            "-netdev",
            &format!(
                "stream,id=wire,server={side},addr.type=unix,addr.path={}",
                shown(&wire)
            ),
        ])
        // Both interfaces of a guest are at the same wire.
        .args(["-netdev", "hubport,id=plug,hubid=0,netdev=wire"]);
    for (number, device) in DEVICES.iter().enumerate() {
        command
            .args(["-netdev", &format!("hubport,id={device},hubid=0")])
            .args([
                "-device",
                &format!(
                    "virtio-net-pci,netdev={device},mac=52:54:00:53:4d:{number}{digit},romfile="
                ),
            ]);
    }
    command
}
