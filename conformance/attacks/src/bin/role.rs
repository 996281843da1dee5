//! One process of an attack: its limits, its role and the role's arguments.

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    smc_attacks::roles::run(std::env::args().skip(1))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    panic!("attacks are for Linux");
}
