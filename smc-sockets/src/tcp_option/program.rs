//! The program for socket operations, and the types that its map needs.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::assembler::{Assembler, Condition, Instruction, Label, Operation, Register, Width};
use super::{ANSWERED, ASKED};

use Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7, R8};

/// The experimental option 254 of 6 bytes, with SMC's number: "SMCR" in EBCDIC.
const OPTION: [u8; 6] = [254, 6, 0xe2, 0xd4, 0xc3, 0xd9];
const OPTION_LENGTH: i32 = 6;
/// Where it is on the stack, and where a number is.
const OPTION_AT: i16 = -8;
const NUMBER_AT: i16 = -16;

/// Offsets within `struct bpf_sock_ops`.
const OP: i16 = 0;
const FIRST_ARGUMENT: i16 = 4;
const CALLBACK_FLAGS: i16 = 84;
const SOCKET: i16 = 184;
const TCP_FLAGS: i16 = 212;

/// What the program is called for.
const CONNECT: i32 = 3;
const ACTIVE_ESTABLISHED: i32 = 4;
const PASSIVE_ESTABLISHED: i32 = 5;
const LISTEN: i32 = 11;
const OPTION_SPACE: i32 = 14;
const OPTION_WRITE: i32 = 15;

/// The kernel's functions.
const SET_SOCKET_OPTION: i32 = 49;
const SET_CALLBACK_FLAGS: i32 = 59;
const SOCKET_STORAGE: i32 = 107;
const LOAD_OPTION: i32 = 142;
const STORE_OPTION: i32 = 143;
const RESERVE_OPTION: i32 = 144;

/// To be called for the options of segments, and of unknown options.
const CALL_FOR_OPTIONS: i32 = 0x40;
const CALL_FOR_UNKNOWN: i32 = 0x20;
/// Read the SYN that was saved.
const OF_THE_SYN: i32 = 1;
/// The SYN-ACK is one with a cookie: the listener keeps nothing of the SYN.
const COOKIE: i32 = 2;
const IPPROTO_TCP: i32 = 6;
const TCP_SAVE_SYN: i32 = 27;
const SYN: i32 = 0x02;
const ACKNOWLEDGEMENT: i32 = 0x10;

/// The program, for a map of marks.
pub(super) fn assemble(map: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let map = map.as_raw_fd();
    let (asked, header, established, out) =
        (code.label(), code.label(), code.label(), code.label());

    code.copy(R6, R1);
    code.load(Width::Word, R7, R6, OP);
    for (octet, at) in OPTION.into_iter().zip(OPTION_AT..) {
        code.store_number(Width::Octet, Frame, at, i32::from(octet));
    }
    for (operation, target) in [
        (OPTION_SPACE, header),
        (OPTION_WRITE, header),
        (LISTEN, asked),
        (CONNECT, asked),
        (ACTIVE_ESTABLISHED, established),
        (PASSIVE_ESTABLISHED, established),
    ] {
        code.jump_if(R7, Condition::Equal, operation, target);
    }
    code.jump(out);

    code.place(asked);
    begin(&mut code, map, out);
    code.place(header);
    write_option(&mut code, out);
    code.place(established);
    note_the_peers(&mut code, map, out);

    code.place(out);
    code.compute(Operation::Move, R0, 1);
    code.exit();
    code.finish()
}

/// At `connect` and `listen`: the program is called for the options of sockets that
/// asked. Listeners save SYNs, as their options are read later.
fn begin(code: &mut Assembler, map: i32, out: Label) {
    let flags = code.label();
    marks(code, map, out);
    code.jump_if(R7, Condition::NotEqual, LISTEN, flags);
    code.store_number(Width::Word, Frame, NUMBER_AT, 1);
    code.copy(R1, R6);
    code.compute(Operation::Move, R2, IPPROTO_TCP);
    code.compute(Operation::Move, R3, TCP_SAVE_SYN);
    code.copy(R4, Frame);
    code.compute(Operation::Add, R4, i32::from(NUMBER_AT));
    code.compute(Operation::Move, R5, 4);
    code.call(SET_SOCKET_OPTION);
    code.place(flags);
    callback_flags(code, Operation::Or, CALL_FOR_OPTIONS);
    code.jump(out);
}

/// Once for its space and once for the option: into each SYN, and into SYN-ACKs that
/// answer a SYN with the option and whose listener remembers that.
fn write_option(code: &mut Assembler, out: Label) {
    let (write, space) = (code.label(), code.label());
    code.load(Width::Word, R8, R6, FIRST_ARGUMENT);
    code.jump_if(R8, Condition::Equal, COOKIE, out);
    code.load(Width::Word, R8, R6, TCP_FLAGS);
    let syn = code.label();
    code.jump_if(R8, Condition::AnySet, SYN, syn);
    code.jump(out);
    code.place(syn);
    let answer = code.label();
    code.jump_if(R8, Condition::AnySet, ACKNOWLEDGEMENT, answer);
    code.jump(write);
    code.place(answer);
    load_option(code);
    code.compute(Operation::Move, R4, OF_THE_SYN);
    code.call(LOAD_OPTION);
    code.jump_if(R0, Condition::Less, 0, out);
    code.place(write);
    code.jump_if(R7, Condition::Equal, OPTION_SPACE, space);
    load_option(code);
    code.compute(Operation::Move, R4, 0);
    code.call(STORE_OPTION);
    code.jump(out);
    code.place(space);
    code.copy(R1, R6);
    code.compute(Operation::Move, R2, OPTION_LENGTH);
    code.compute(Operation::Move, R3, 0);
    code.call(RESERVE_OPTION);
    code.jump(out);
}

/// Notes whether the peer's SYN or SYN-ACK had the option. Later segments are none of
/// our business: the program is not called for them any more.
fn note_the_peers(code: &mut Assembler, map: i32, out: Label) {
    let (load, quiet) = (code.label(), code.label());
    marks(code, map, out);
    code.copy(R8, R0);
    load_option(code);
    code.compute(Operation::Move, R4, 0);
    code.jump_if(R7, Condition::NotEqual, PASSIVE_ESTABLISHED, load);
    code.compute(Operation::Move, R4, OF_THE_SYN);
    code.place(load);
    code.call(LOAD_OPTION);
    code.jump_if(R0, Condition::NotEqual, OPTION_LENGTH, quiet);
    code.load(Width::Word, R1, R8, 0);
    code.compute(Operation::Or, R1, ANSWERED as i32);
    code.store(Width::Word, R8, 0, R1);
    code.place(quiet);
    callback_flags(code, Operation::And, !(CALL_FOR_OPTIONS | CALL_FOR_UNKNOWN));
}

/// The marks of this socket in R0; without any, or not asked for, `out`.
fn marks(code: &mut Assembler, map: i32, out: Label) {
    let found = code.label();
    code.load(Width::Double, R2, R6, SOCKET);
    code.jump_if(R2, Condition::Equal, 0, out);
    code.load_map(R1, map);
    code.compute(Operation::Move, R3, 0);
    code.compute(Operation::Move, R4, 0);
    code.call(SOCKET_STORAGE);
    code.jump_if(R0, Condition::Equal, 0, out);
    code.load(Width::Word, R1, R0, 0);
    code.jump_if(R1, Condition::AnySet, ASKED as i32, found);
    code.jump(out);
    code.place(found);
}

/// R1 to R3 for a function that takes the option.
fn load_option(code: &mut Assembler) {
    code.copy(R1, R6);
    code.copy(R2, Frame);
    code.compute(Operation::Add, R2, i32::from(OPTION_AT));
    code.compute(Operation::Move, R3, OPTION_LENGTH);
}

fn callback_flags(code: &mut Assembler, operation: Operation, number: i32) {
    code.copy(R1, R6);
    code.load(Width::Word, R2, R6, CALLBACK_FLAGS);
    code.compute(operation, R2, number);
    code.call(SET_CALLBACK_FLAGS);
}

/// Type information with one type, an `int` of 32 bits: keys and values of the map.
pub(super) fn types() -> Vec<u8> {
    const STRINGS: &[u8] = b"\0int\0";
    const HEADER: u32 = 24;
    const INTEGER: u32 = 1 << 24;
    const SIGNED: u32 = 1 << 24;
    let name = 1_u32;
    let entry = [name, INTEGER, 4, SIGNED | 32];
    let entry_length = 16_u32;
    let strings_length = STRINGS.len() as u32;
    let mut octets = 0xeb9f_u16.to_ne_bytes().to_vec();
    // The format's version, and no flags.
    octets.extend_from_slice(&[1, 0]);
    for number in [HEADER, 0, entry_length, entry_length, strings_length] {
        octets.extend_from_slice(&number.to_ne_bytes());
    }
    for number in entry {
        octets.extend_from_slice(&number.to_ne_bytes());
    }
    octets.extend_from_slice(STRINGS);
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_program_jumps_within_itself_only_and_ends_in_exit() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let code = assemble(file.as_fd());
        for (here, instruction) in code.iter().enumerate() {
            let is_jump = instruction[0] & 7 == 5 && !matches!(instruction[0], 0x85 | 0x95);
            if is_jump {
                let offset = i16::from_ne_bytes([instruction[2], instruction[3]]);
                let target = here as isize + 1 + isize::from(offset);
                assert!((0..code.len() as isize).contains(&target), "{here}");
            }
        }
        assert_eq!(code.last().unwrap()[0], 0x95);
    }

    #[test]
    fn the_types_are_45_octets() {
        assert_eq!(types().len(), 45);
    }
}
