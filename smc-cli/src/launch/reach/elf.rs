//! Headers of an ELF file. Any user may have written the file: all of it is validated by
//! the crate `object`, and nothing is read but headers, notes and the linker's name.

use std::fs::File;
use std::io;
use std::path::Path;

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};

/// What is known of an executable file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Image {
    /// Class, byte order and machine.
    pub(super) architecture: (u8, u8, u16),
    /// The file name of the dynamic linker, if the program has one.
    pub(super) linker: Option<String>,
    /// Whether Go's linker made the file.
    pub(super) is_go: bool,
}

impl Image {
    /// Reads the headers of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no ELF file.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let file = ReadCache::new(File::open(path)?);
        let image = match FileKind::parse(&file).map_err(invalid)? {
            FileKind::Elf32 => of::<FileHeader32<Endianness>, _>(&file),
            FileKind::Elf64 => of::<FileHeader64<Endianness>, _>(&file),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        image.map_err(invalid)
    }
}

fn invalid(error: object::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn of<'a, E, R>(data: R) -> object::Result<Image>
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let identity = header.e_ident();
    let architecture = (
        identity.class.0,
        identity.data.0,
        header.e_machine(endian).0,
    );
    let (mut linker, mut is_go) = (None, has_go_section(header, endian, data));
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            let path = String::from_utf8_lossy(path);
            linker = path.rsplit('/').next().map(str::to_owned);
        }
        is_go |= has_go_note(segment, endian, data);
    }
    Ok(Image {
        architecture,
        linker,
        is_go,
    })
}

/// Whether there is a section that Go's linker makes; stripped files have no sections.
fn has_go_section<'a, E, R>(header: &E, endian: Endianness, data: R) -> bool
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let Ok(sections) = header.sections(endian, data) else {
        return false;
    };
    let mut names = sections.iter().map(|of| sections.section_name(endian, of));
    names.any(|name| name == Ok(b".go.buildinfo"))
}

/// Whether a segment has the note of a Go build.
fn has_go_note<'a, P, R>(segment: &P, endian: Endianness, data: R) -> bool
where
    P: ProgramHeader<Endian = Endianness>,
    R: ReadRef<'a>,
{
    let Ok(Some(mut notes)) = segment.notes(endian, data) else {
        return false;
    };
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"Go" {
            return true;
        }
    }
    false
}
