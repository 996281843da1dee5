//! What a kernel logged.

use std::fmt;

/// Words that a kernel has only when something is wrong with it.
const ALARMS: &[&str] = &[
    "WARNING:",
    "BUG:",
    "Oops",
    "Kernel panic",
    "general protection fault",
    "Call Trace",
    "refcount_t",
    "unregister_netdevice: waiting",
    "blocked for more than",
    "kernel NULL pointer",
];

/// The first lines of each alarm in a log, from a byte on; of a broken log none.
pub(crate) fn alarms(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| ALARMS.iter().any(|alarm| line.contains(alarm)))
        .collect()
}

/// What is wrong in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alarm {
    /// The first line that shows it.
    line: String,
    /// Flags that no processor has: those of an emulator that lost count of them.
    impossible: Option<String>,
}

impl Alarm {
    /// The first alarm of a log, if there is one.
    pub(crate) fn of(log: &str) -> Option<Self> {
        let line = alarms(log).into_iter().next()?.to_owned();
        let impossible = impossible_flags(log).map(str::to_owned);
        Some(Self { line, impossible })
    }

    /// Whether neither the kernel nor a peer can have done this.
    pub(crate) fn is_the_emulators(&self) -> bool {
        self.impossible.is_some()
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a kernel's log: {}", self.line)?;
        match &self.impossible {
            Some(flags) => write!(
                f,
                " (EFLAGS {flags}, as no processor has them: the emulator's fault)"
            ),
            None => Ok(()),
        }
    }
}

/// The flags of a dump in which bits are set that are always 0.
fn impossible_flags(log: &str) -> Option<&str> {
    const ALWAYS_0: u32 = 0xffc0_8028;
    let mut dumped = log.lines().filter_map(|line| {
        let flags = line.split_once("EFLAGS: ")?.1;
        flags.split_whitespace().next()
    });
    dumped.find(|flags| u32::from_str_radix(flags, 16).is_ok_and(|bits| bits & ALWAYS_0 != 0))
}

#[cfg(test)]
mod tests {
    use super::{Alarm, alarms};

    #[test]
    fn flags_that_no_processor_has_are_the_emulators_fault() {
        let oops = |flags| {
            format!("[ 7.1] Oops: double fault: 0000 [#1]\n[ 7.2] RSP: 0018:ff EFLAGS: {flags}\n")
        };
        let fault = Alarm::of(&oops("deae7202")).unwrap();
        assert!(fault.is_the_emulators());
        let text = fault.to_string();
        assert!(
            text.contains("deae7202") && text.contains("emulator"),
            "{text}"
        );
        let fault = Alarm::of(&oops("00010246")).unwrap();
        assert!(!fault.is_the_emulators());
        let text = "a kernel's log: [ 7.1] Oops: double fault: 0000 [#1]";
        assert_eq!(fault.to_string(), text);
        assert_eq!(Alarm::of("[ 7.2] RSP: 0018:ff EFLAGS: deae7202\n"), None);
    }

    #[test]
    fn only_what_is_wrong_is_an_alarm() {
        let log = "[ 1.0] smc: adding ib device rxe0\n\
                   [ 2.0] WARNING: CPU: 0 PID: 1 at net/smc/smc_wr.c:1\n\
                   [ 2.1] Call Trace:\n[ 3.0] rdma_rxe: loaded\n";
        assert_eq!(alarms(log).len(), 2);
        assert!(alarms("[ 0.0] Warning: unable to open an initial console.\n").is_empty());
    }
}
