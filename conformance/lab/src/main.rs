//! `smc-lab`: conversations with real kernels.

#[cfg(target_os = "linux")]
mod arguments {
    use std::path::PathBuf;

    use clap::Parser;
    use smc_lab::host::campaign::{Direction, Options};
    use smc_lab::scenarios::Campaign;

    /// Linux against Linux, and against us, in two virtual machines on one wire.
    ///
    /// Nothing is installed and no right is needed: packages of Debian's are fetched
    /// and unpacked below the target directory.
    #[derive(Parser, Debug)]
    #[command(name = "smc-lab", version)]
    pub(crate) struct Arguments {
        /// What takes minutes (the default).
        #[arg(long, conflicts_with = "full")]
        quick: bool,
        /// Everything.
        #[arg(long)]
        full: bool,
        /// Only scenarios of this name, or whose names contain it if there is none, or of
        /// several with commas between.
        #[arg(long, value_name = "PARTS")]
        only: Option<String>,
        /// How often each.
        #[arg(long, default_value_t = 1, value_name = "COUNT")]
        rounds: u32,
        /// SMC-R version 1: the kernel's SMC is built from its source for that, with make
        /// and gcc-12.
        #[arg(long)]
        v1: bool,
        /// Only one direction, client first: kernel-kernel, ours-ours, ours-kernel,
        /// kernel-ours.
        #[arg(long, value_name = "ENDS")]
        direction: Option<Direction>,
        /// Of the scripts of the conformance suite (`--only scripts-kernel`, `scripts-ours`)
        /// those whose names begin like this, with commas between.
        #[arg(long, value_name = "BEGINNINGS", value_delimiter = ',')]
        scripts: Vec<String>,
        /// A kernel's version, such as 6.12.95; else that of Debian's backports.
        #[arg(long, value_name = "VERSION")]
        kernel: Option<String>,
        /// Where everything is kept; else below the target directory.
        #[arg(long, value_name = "PATH")]
        directory: Option<PathBuf>,
        /// A machine that cannot run guests is a failure, not a skip.
        #[arg(long)]
        pub(crate) required: bool,
    }

    impl Arguments {
        pub(crate) fn options(&self) -> Options {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
                || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
                PathBuf::from,
            );
            let directory = self.directory.clone().unwrap_or_else(|| target.join("lab"));
            Options {
                directory: std::path::absolute(&directory).unwrap_or(directory),
                campaign: if self.full {
                    Campaign::Full
                } else {
                    Campaign::Quick
                },
                only: self.only.clone(),
                kernel: self.kernel.clone(),
                rounds: self.rounds,
                direction: self.direction,
                scripts: self.scripts.clone(),
                v1: self.v1,
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    use smc_lab::host::{Trouble, campaign};

    let arguments = arguments::Arguments::parse();
    match campaign::run(&arguments.options(), &mut std::io::stdout()) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(Trouble::Unable(sentence)) if !arguments.required => {
            println!("SKIPPED: the laboratory did not run: {sentence}");
            std::process::ExitCode::SUCCESS
        }
        Err(trouble) => {
            eprintln!("smc-lab: {trouble}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: the laboratory runs on Linux");
}
