//! Lists the ISM functions of this machine, from `/sys`. That needs no rights and opens no device.

use std::io;
use std::path::Path;

/// PCI vendor of ISM functions.
const VENDOR: &str = "0x1014";
/// PCI device of ISM functions.
const DEVICE: &str = "0x04ed";

/// An ISM function of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// PCI address, such as `0001:00:00.0`.
    pub address: String,
    /// Function ID of the machine's configuration, in hexadecimal digits behind `0x`.
    pub function: Option<String>,
    /// Driver that the function is bound to. [`vfio`](super::vfio) can open those of `vfio-pci`.
    pub driver: Option<String>,
    /// Utility string, 64 bytes: the PNET IDs of the ports, in EBCDIC.
    pub utility: Option<Vec<u8>>,
}

/// The ISM functions below `root`, which is `/sys` on a running system, in the order of their
/// addresses. Empty if there is no PCI bus.
///
/// # Errors
/// Error of the operating system.
pub fn list(root: &Path) -> io::Result<Vec<Listed>> {
    let entries = match std::fs::read_dir(root.join("bus/pci/devices")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry?;
        let folder = entry.path();
        let text = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        let has = |name, expected| text(name).as_deref() == Some(expected);
        if !has("vendor", VENDOR) || !has("device", DEVICE) {
            continue;
        }
        let driver = std::fs::read_link(folder.join("driver")).ok();
        let driver = driver.and_then(|to| Some(to.file_name()?.to_string_lossy().into_owned()));
        all.push(Listed {
            address: entry.file_name().to_string_lossy().into_owned(),
            function: text("function_id"),
            driver,
            utility: std::fs::read(folder.join("util_string")).ok(),
        });
    }
    all.sort_by(|one, other| one.address.cmp(&other.address));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn functions_of_this_kind_are_listed_and_no_others() {
        let root = std::env::temp_dir().join(format!("smc-pci-{}", std::process::id()));
        assert_eq!(list(&root).unwrap(), []);
        let put = |path: &str, text: &str| {
            let path = root.join("bus/pci/devices").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (address, vendor, device) in [
            ("0001:00:00.0", "0x1014\n", "0x04ed\n"),
            ("0000:00:00.0", "0x1014\n", "0x04ed\n"),
            ("0000:00:01.0", "0x1014\n", "0x044b\n"),
            ("0000:00:02.0", "0x15b3\n", "0x04ed\n"),
        ] {
            put(&format!("{address}/vendor"), vendor);
            put(&format!("{address}/device"), device);
        }
        put("0001:00:00.0/function_id", "0x00000040\n");
        let all = list(&root).unwrap();
        let addresses: Vec<_> = all.iter().map(|of| of.address.as_str()).collect();
        assert_eq!(addresses, ["0000:00:00.0", "0001:00:00.0"]);
        assert_eq!(all[1].function.as_deref(), Some("0x00000040"));
        assert_eq!((&all[1].driver, &all[1].utility), (&None, &None));
        fs::remove_dir_all(&root).unwrap();
    }
}
