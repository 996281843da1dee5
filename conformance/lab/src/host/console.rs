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

#[cfg(test)]
mod tests {
    use super::alarms;

    #[test]
    fn only_what_is_wrong_is_an_alarm() {
        let log = "[ 1.0] smc: adding ib device rxe0\n\
                   [ 2.0] WARNING: CPU: 0 PID: 1 at net/smc/smc_wr.c:1\n\
                   [ 2.1] Call Trace:\n[ 3.0] rdma_rxe: loaded\n";
        assert_eq!(alarms(log).len(), 2);
        assert!(alarms("[ 0.0] Warning: unable to open an initial console.\n").is_empty());
    }
}
