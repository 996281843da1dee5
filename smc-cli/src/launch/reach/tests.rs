//! Tests of what is found in executable files.

use std::path::PathBuf;

use super::*;

fn image(linker: Option<&str>) -> Image {
    Image {
        architecture: (2, 1, 62),
        linker: linker.map(str::to_owned),
        is_go: false,
    }
}

const GLIBC: &str = "ld-linux-x86-64.so.2";

#[test]
fn a_program_like_this_command_is_reached() {
    assert_eq!(of_image(&image(Some(GLIBC)), &image(Some(GLIBC))), None);
}

#[test]
fn what_is_out_of_reach_is_named() {
    let own = image(Some(GLIBC));
    let of = |image: &Image| of_image(image, &own).map(|obstacle| obstacle.to_string());
    assert_eq!(of(&image(None)).unwrap(), "is statically linked");
    let musl = of(&image(Some("ld-musl-x86_64.so.1"))).unwrap();
    assert_eq!(musl, "uses another C library (ld-musl-x86_64.so.1)");
    // Go's runtime makes its own system calls even where it uses a C library.
    for linker in [None, Some(GLIBC)] {
        let go = Image {
            is_go: true,
            ..image(linker)
        };
        assert!(of(&go).unwrap().starts_with("is a Go program"));
    }
    let other = Image {
        architecture: (1, 1, 3),
        ..image(None)
    };
    assert_eq!(of(&other).unwrap(), "is a program of another architecture");
}

#[test]
fn the_library_stays_for_what_a_program_starts() {
    assert!(Obstacle::Static.leaves_preload());
    assert!(Obstacle::Go.leaves_preload());
    assert!(Obstacle::Privileged(Gain::User).leaves_preload());
    assert!(!Obstacle::OtherArchitecture.leaves_preload());
    assert!(!Obstacle::OtherLibc(String::new()).leaves_preload());
}

/// A file of this test's.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let name = format!("smcx-elf-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn this_test_is_a_dynamic_program() {
    let own = Image::read(Path::new("/proc/self/exe")).unwrap();
    assert!(own.linker.is_some() && !own.is_go, "{own:?}");
}

/// Every cut and every changed byte of a real program's headers is an image or an error.
#[test]
fn damaged_files_are_errors_at_most() {
    let whole = std::fs::read("/proc/self/exe").unwrap();
    let headers = &whole[..1024.min(whole.len())];
    for length in (0..headers.len()).step_by(7) {
        let cut = Scratch::new("cut", &headers[..length]);
        let _ = Image::read(&cut.0);
    }
    for at in 0..512 {
        let mut changed = headers.to_vec();
        changed[at] ^= 0xff;
        let changed = Scratch::new("changed", &changed);
        let _ = Image::read(&changed.0);
    }
    let text = Scratch::new("text", b"no program");
    assert!(Image::read(&text.0).is_err());
}

/// A minimal ELF file with one segment of notes.
fn with_note(name: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [2_u16, 62] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    // Entry, program headers right behind, no sections.
    for address in [0_u64, 64, 0] {
        file.extend(address.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    let length = 12 + 4 + 4;
    for half in [4_u32, 4] {
        file.extend(half.to_le_bytes());
    }
    for field in [64 + 56, 0, 0, length, length, 4_u64] {
        file.extend(field.to_le_bytes());
    }
    for field in [u32::try_from(name.len()).unwrap() + 1, 4, 4] {
        file.extend(field.to_le_bytes());
    }
    file.extend(name);
    file.resize(64 + 56 + 16, 0);
    file.extend([7; 4]);
    file
}

#[test]
fn the_note_of_a_go_build_is_found() {
    let go = Scratch::new("go", &with_note(b"Go"));
    let other = Scratch::new("gnu", &with_note(b"GNU"));
    assert!(Image::read(&go.0).unwrap().is_go);
    let other = Image::read(&other.0).unwrap();
    assert!(!other.is_go && other.linker.is_none());
    assert_eq!(other.architecture, (2, 1, 62));
}
