//! Captures of little-endian machines, as a big-endian one would have made them.

use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Bytes of a pcap file in front of its first record, and in front of a frame.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// Bytes in front of the BTH in a frame of RoCEv2 over IPv4, and of the BTH.
const TO_BTH: usize = 14 + 20 + 8;
const BTH: usize = 12;
const SEND_ONLY: u8 = 4;

/// Copies a capture with the length of each LLC message of version 2 the other
/// way round, and the count of RTokens in both bytes; returns how many there were.
pub(crate) fn swap_lengths(from: &Path, to: &Path) -> usize {
    let mut octets = Vec::new();
    let file = fs::File::open(from).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut octets)
        .unwrap();
    let mut at = FILE_HEADER;
    let mut swapped = 0;
    while let Some(captured) = octets.get(at + 8..at + 12) {
        let length = u32::from_le_bytes(captured.try_into().unwrap()) as usize;
        at += RECORD_HEADER;
        let frame = &mut octets[at..at + length];
        at += length;
        let udp = frame[12..14] == [8, 0] && frame[23] == 17;
        if !udp || frame[TO_BTH] != SEND_ONLY {
            continue;
        }
        let message = &mut frame[TO_BTH + BTH..];
        if (0x21..=0x29).contains(&message[0]) {
            message.swap(1, 2);
            swapped += 1;
            // Behind 44 bytes only ADD LINK has more than the CRC.
            if message[0] == 0x22 && message.len() > 48 {
                message[71] = message[70];
            }
        }
    }
    fs::write(to, octets).unwrap();
    swapped
}
