//! The guests' initial file system: a cpio archive in the format `newc`.

use std::path::Path;

/// An archive that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    entries: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

impl Image {
    /// Adds a file, and the directories above it.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        let above: Vec<_> = Path::new(path).ancestors().skip(1).collect();
        for directory in above
            .iter()
            .rev()
            .filter(|path| !path.as_os_str().is_empty())
        {
            // One that is there already is made again without harm.
            self.entry(&directory.to_string_lossy(), DIRECTORY, &[]);
        }
        self.entry(path, FILE, content);
    }

    /// The archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// A header of thirteen numbers in eight hexadecimal digits after a magic number of
    /// six, the name with a NUL, and the content; both up to a multiple of four.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let content_length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_length = u32::try_from(name.len()).unwrap_or(u32::MAX) + 1;
        let links = 1;
        let numbers = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            content_length,
            0,
            0,
            0,
            0,
            name_length,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes
                .extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn an_archive_has_its_directories_files_and_end() {
        let mut image = Image::default();
        image.file("modules/order", b"smc.ko\n");
        let archive = image.finish();
        let text = String::from_utf8_lossy(&archive);
        let headers: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(headers.len(), 3);
        assert!(headers.iter().all(|at| at % 4 == 0));
        assert!(text[headers[0]..].starts_with("07070100000001000041ed"));
        assert!(text[headers[1]..].contains("modules/order\0"));
        assert!(text[headers[2]..].contains("TRAILER!!!"));
    }
}
