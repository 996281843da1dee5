//! An assembler of BPF programs, as much of it as we use: typed operands, and labels
//! that are resolved at the end.

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    /// A call's result, and the program's.
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    /// From here on registers survive calls.
    R6,
    R7,
    R8,
    /// The end of the stack.
    Frame = 10,
}

/// How much memory an access is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Octet = 0x10,
    Word = 0x00,
    Double = 0x18,
}

/// An operation on a register and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    Move = 0xb0,
}

/// A comparison of a register and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Equal = 0x10,
    NotEqual = 0x50,
    /// Some bit of the number is set in the register.
    AnySet = 0x40,
    /// Both taken as signed.
    Less = 0xc0,
}

/// A place that is jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// One instruction as the kernel takes it: 8 bytes, native order.
pub(super) type Instruction = [u8; 8];

/// Classes of instructions, and bits that go with them.
const LOAD: u8 = 0x00;
const LOAD_REGISTER: u8 = 0x01;
const STORE_NUMBER: u8 = 0x02;
const STORE_REGISTER: u8 = 0x03;
const JUMP: u8 = 0x05;
const ARITHMETIC: u8 = 0x07;
const MEMORY: u8 = 0x60;
const FROM_REGISTER: u8 = 0x08;
const ALWAYS: u8 = 0x00;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// The number is a map's descriptor.
const MAP: u8 = 1;

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Line>,
    /// Position of each label, once it is placed.
    labels: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Line {
    operation: u8,
    destination: u8,
    source: u8,
    offset: i16,
    number: i32,
    target: Option<Label>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        let here = self.code.len();
        if let Some(place) = self.labels.get_mut(label.0) {
            debug_assert!(place.is_none(), "a label is in one place");
            *place = Some(here);
        }
    }

    /// `destination = destination operation number`.
    pub(super) fn compute(&mut self, operation: Operation, destination: Register, number: i32) {
        let operation = ARITHMETIC | operation as u8;
        self.line(operation, destination as u8, 0, 0, number, None);
    }

    /// `destination = source`.
    pub(super) fn copy(&mut self, destination: Register, source: Register) {
        let operation = ARITHMETIC | FROM_REGISTER | Operation::Move as u8;
        self.line(operation, destination as u8, source as u8, 0, 0, None);
    }

    /// `destination = *(base + offset)`.
    pub(super) fn load(
        &mut self,
        width: Width,
        destination: Register,
        base: Register,
        offset: i16,
    ) {
        let operation = LOAD_REGISTER | MEMORY | width as u8;
        self.line(operation, destination as u8, base as u8, offset, 0, None);
    }

    /// `*(base + offset) = source`.
    pub(super) fn store(&mut self, width: Width, base: Register, offset: i16, source: Register) {
        let operation = STORE_REGISTER | MEMORY | width as u8;
        self.line(operation, base as u8, source as u8, offset, 0, None);
    }

    /// `*(base + offset) = number`.
    pub(super) fn store_number(&mut self, width: Width, base: Register, offset: i16, number: i32) {
        let operation = STORE_NUMBER | MEMORY | width as u8;
        self.line(operation, base as u8, 0, offset, number, None);
    }

    /// `destination` is the map with this descriptor; two instructions long.
    pub(super) fn load_map(&mut self, destination: Register, descriptor: i32) {
        let operation = LOAD | Width::Double as u8;
        self.line(operation, destination as u8, MAP, 0, descriptor, None);
        self.line(0, 0, 0, 0, 0, None);
    }

    pub(super) fn jump(&mut self, target: Label) {
        self.line(JUMP | ALWAYS, 0, 0, 0, 0, Some(target));
    }

    /// Goes on at `target` if the comparison holds.
    pub(super) fn jump_if(
        &mut self,
        register: Register,
        condition: Condition,
        number: i32,
        target: Label,
    ) {
        let operation = JUMP | condition as u8;
        self.line(operation, register as u8, 0, 0, number, Some(target));
    }

    /// Calls a function of the kernel's.
    pub(super) fn call(&mut self, function: i32) {
        self.line(JUMP | CALL, 0, 0, 0, function, None);
    }

    pub(super) fn exit(&mut self) {
        self.line(JUMP | EXIT, 0, 0, 0, 0, None);
    }

    /// The program.
    pub(super) fn finish(self) -> Vec<Instruction> {
        let lines = self.code.iter().enumerate();
        lines
            .map(|(here, line)| line.encode(here, &self.labels))
            .collect()
    }

    fn line(
        &mut self,
        operation: u8,
        destination: u8,
        source: u8,
        offset: i16,
        number: i32,
        target: Option<Label>,
    ) {
        self.code.push(Line {
            operation,
            destination,
            source,
            offset,
            number,
            target,
        });
    }
}

impl Line {
    fn encode(&self, here: usize, labels: &[Option<usize>]) -> Instruction {
        let offset = self.target.map_or(self.offset, |label| {
            // Distances count from the instruction after this one.
            let place = labels.get(label.0).copied().flatten();
            debug_assert!(place.is_some(), "every label is placed");
            let distance = place.unwrap_or(here) as isize - here as isize - 1;
            i16::try_from(distance).unwrap_or(i16::MAX)
        });
        // Two fields of four bits, which bit fields of C lay out as the machine's order.
        let registers = if cfg!(target_endian = "little") {
            self.destination | self.source << 4
        } else {
            self.source | self.destination << 4
        };
        let [offset_0, offset_1] = offset.to_ne_bytes();
        let [a, b, c, d] = self.number.to_ne_bytes();
        [self.operation, registers, offset_0, offset_1, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes from the kernel's documentation of the instruction set.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_those_that_the_kernel_documents() {
        let mut assembler = Assembler::default();
        assembler.copy(Register::R6, Register::R1);
        assembler.compute(Operation::Move, Register::R0, 1);
        assembler.load(Width::Word, Register::R7, Register::R6, 4);
        assembler.load(Width::Double, Register::R2, Register::R6, 184);
        assembler.store_number(Width::Octet, Register::Frame, -8, 0xfe);
        assembler.store(Width::Word, Register::R8, 0, Register::R1);
        assembler.call(107);
        assembler.exit();
        assert_eq!(
            assembler.finish(),
            [
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
                [0x61, 0x67, 4, 0, 0, 0, 0, 0],
                [0x79, 0x62, 184, 0, 0, 0, 0, 0],
                [0x72, 0x0a, 0xf8, 0xff, 0xfe, 0, 0, 0],
                [0x63, 0x18, 0, 0, 0, 0, 0, 0],
                [0x85, 0, 0, 0, 107, 0, 0, 0],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn jumps_count_from_the_next_instruction_and_over_both_halves_of_a_map() {
        let mut assembler = Assembler::default();
        let (start, end) = (assembler.label(), assembler.label());
        assembler.place(start);
        assembler.jump_if(Register::R0, Condition::Less, 0, end);
        assembler.load_map(Register::R1, 7);
        assembler.jump(start);
        assembler.place(end);
        assembler.exit();
        let code = assembler.finish();
        let offset =
            |instruction: &Instruction| i16::from_ne_bytes([instruction[2], instruction[3]]);
        assert_eq!(code.len(), 5);
        assert_eq!((code[0][0], offset(&code[0])), (0xc5, 3));
        assert_eq!((code[3][0], offset(&code[3])), (0x05, -4));
        assert_eq!(code[1][0], 0x18);
    }
}
