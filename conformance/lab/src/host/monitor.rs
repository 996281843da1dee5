//! QEMU's monitor: captures are begun and ended while the guest runs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::{Trouble, failed};

/// A connection to a guest's monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    reader: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects, and leaves the state in which only capabilities may be asked for.
    pub(crate) fn connect(path: &Path) -> Result<Self, Trouble> {
        let stream = UnixStream::connect(path).map_err(failed("the guest's monitor"))?;
        let mut monitor = Self {
            reader: BufReader::new(stream),
        };
        monitor.command(&json!({ "execute": "qmp_capabilities" }))?;
        Ok(monitor)
    }

    /// Writes what passes the network device from now on to a file.
    pub(crate) fn start_capture(&mut self, device: &str, file: &Path) -> Result<(), Trouble> {
        self.command(&json!({ "execute": "object-add", "arguments": {
            "qom-type": "filter-dump", "id": format!("dump-{device}"),
            "netdev": device, "file": file,
        }}))
    }

    /// Ends that.
    pub(crate) fn stop_capture(&mut self, device: &str) -> Result<(), Trouble> {
        let id = format!("dump-{device}");
        self.command(&json!({ "execute": "object-del", "arguments": { "id": id } }))
    }

    fn command(&mut self, command: &Value) -> Result<(), Trouble> {
        let doing = "the guest's monitor";
        writeln!(self.reader.get_mut(), "{command}").map_err(failed(doing))?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.reader.read_line(&mut line).map_err(failed(doing))? == 0 {
                return Err(Trouble::Failed(format!("{doing}: it closed")));
            }
            let answer: Value = serde_json::from_str(&line).map_err(failed(doing))?;
            // Greetings and events come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                return Err(Trouble::Failed(format!("{doing}: {error}")));
            }
        }
    }
}
