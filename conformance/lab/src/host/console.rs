//! What a kernel logged.

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

/// The first lines of each alarm in a log, from an octet on; of a broken log none.
pub(crate) fn alarms(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| ALARMS.iter().any(|alarm| line.contains(alarm)))
        .collect()
}

/// What to tell of a log, if there is an alarm in it: the first, and whose fault it may be.
pub(crate) fn told(log: &str) -> Option<String> {
    let first = alarms(log).into_iter().next()?;
    Some(match impossible_flags(log) {
        Some(flags) => {
            format!("{first} (EFLAGS {flags}, as no processor has them: the emulator's fault)")
        }
        None => first.to_owned(),
    })
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
    use super::{alarms, told};

    #[test]
    fn flags_that_no_processor_has_are_the_emulators_fault() {
        let oops = |flags| {
            format!("[ 7.1] Oops: double fault: 0000 [#1]\n[ 7.2] RSP: 0018:ff EFLAGS: {flags}\n")
        };
        let fault = told(&oops("deae7202")).unwrap();
        assert!(
            fault.contains("deae7202") && fault.contains("emulator"),
            "{fault}"
        );
        let fault = told(&oops("00010246")).unwrap();
        assert_eq!(fault, "[ 7.1] Oops: double fault: 0000 [#1]");
        assert_eq!(told("[ 7.2] RSP: 0018:ff EFLAGS: deae7202\n"), None);
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
