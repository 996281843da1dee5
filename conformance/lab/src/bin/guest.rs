//! The first process of a guest of the laboratory.

#[cfg(target_os = "linux")]
fn main() {
    // As init it has no environment; the console needs the reason.
    if let Err(error) = smc_lab::guest::run() {
        eprintln!("smc-lab-guest: {error}");
        // Init must not end before the kernel has written that line.
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
