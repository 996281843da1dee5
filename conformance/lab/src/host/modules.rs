//! Modules of the kernel: those that guests load, and those that they need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{need, run};
use super::{Trouble, failed};

/// What is loaded, in this order. Without crc32_generic soft-RoCE makes no device, and
/// nothing depends on it by name.
const WANTED: &[&str] = &[
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "smc",
    "smc_diag",
    "xfrm_user",
];

/// A module's file name in the image, and its bytes.
pub(crate) type Module = (String, Vec<u8>);

/// The wanted modules below `directory`, each after those that it needs. A module that
/// is in `replacements` is taken from there.
pub(crate) fn collect(
    directory: &Path,
    replacements: Option<&Path>,
) -> Result<Vec<Module>, Trouble> {
    let mut files = BTreeMap::new();
    index(directory, &mut files)?;
    if let Some(replacements) = replacements {
        index(replacements, &mut files)?;
    }
    let mut modules = Vec::new();
    for name in WANTED {
        add(name, &files, &mut modules)?;
    }
    Ok(modules)
}

fn index(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Trouble> {
    for entry in fs::read_dir(directory)
        .map_err(failed(directory.display()))?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            index(&path, files)?;
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            // Files have either character, names the underscore.
            files.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn add(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    modules: &mut Vec<Module>,
) -> Result<(), Trouble> {
    let file = format!("{name}.ko");
    // What is not a file is built in.
    let (false, Some(path)) = (
        modules.iter().any(|(done, _)| *done == file),
        files.get(name),
    ) else {
        return Ok(());
    };
    let image = read(path)?;
    for needed in dependencies(&image) {
        add(&needed, files, modules)?;
    }
    modules.push((file, image));
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Trouble> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let xz = need("xz", "xz-utils")?;
        return Ok(run(Command::new(xz).arg("-dc").arg(path))?.stdout);
    }
    fs::read(path).map_err(failed(path.display()))
}

/// The modules that a module names in its section `.modinfo`: strings with NUL at both
/// ends, of which one is `depends=a,b`.
fn dependencies(image: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let found = image.windows(KEY.len()).position(|bytes| bytes == KEY);
    let list = found
        .and_then(|position| image.get(position + KEY.len()..))
        .unwrap_or_default();
    let end = list.iter().position(|byte| *byte == 0).unwrap_or(0);
    let list = String::from_utf8_lossy(list.get(..end).unwrap_or_default()).into_owned();
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::dependencies;

    #[test]
    fn dependencies_are_read_from_the_modinfo() {
        let image = b"\x7fELF depends=none\0license=GPL\0depends=ib_core,ib-uverbs\0name=x\0";
        assert_eq!(dependencies(image), ["ib_core", "ib_uverbs"]);
        assert!(dependencies(b"\0depends=\0name=x\0").is_empty());
        assert!(dependencies(b"no module").is_empty());
    }
}
