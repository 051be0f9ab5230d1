//! The full DWARF rules, with expressions: signal trampolines (their frame is a `ucontext` in memory), functions
//! that realign the stack, PLT stubs, and functions that compute their frame from an odd register.

use gimli::{
    CfaRule, Encoding, EvaluationResult, FrameDescriptionEntry, Register, RegisterRule, UnwindExpression,
    UnwindSection, UnwindTableRow, Value,
};

use super::registers::{RIP, RSP, Registers};
use super::rule::Slice;
use super::stack::{Reader, Unreadable};
use super::table::RowEvaluator;

/// Expressions in unwind information have about ten operations; the longest met has 40.
const OPERATIONS: u32 = 1000;

/// What evaluating a row gave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evaluated {
    /// The caller.
    Caller {
        registers: Registers,
        /// The frame was a signal trampoline: the caller was interrupted, not calling, so that its address is
        /// exact.
        interrupted: bool,
    },
    /// The return address is undefined: nobody called this.
    Root,
    /// A word that the rules need is not in the copy.
    Unreadable(Unreadable),
}

/// Evaluates one row.
#[derive(Debug)]
pub(crate) struct Evaluator<'r, 's> {
    pub(crate) registers: &'r Registers,
    pub(crate) stack: &'r mut Reader<'s>,
    /// Actual minus stated addresses in this file.
    pub(crate) bias: u64,
}

enum Failure {
    Unreadable(Unreadable),
    Unsupported,
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

impl From<gimli::Error> for Failure {
    fn from(_: gimli::Error) -> Self {
        Self::Unsupported
    }
}

impl RowEvaluator<Evaluated> for Evaluator<'_, '_> {
    fn evaluate<'a, S: UnwindSection<Slice<'a>>>(
        mut self,
        section: &S,
        row: &UnwindTableRow<usize>,
        entry: &FrameDescriptionEntry<Slice<'a>>,
    ) -> Option<Evaluated> {
        match self.caller(section, row, entry) {
            Ok(evaluated) => Some(evaluated),
            Err(Failure::Unreadable(unreadable)) => Some(Evaluated::Unreadable(unreadable)),
            Err(Failure::Unsupported) => None,
        }
    }
}

impl Evaluator<'_, '_> {
    fn caller<'a, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        row: &UnwindTableRow<usize>,
        entry: &FrameDescriptionEntry<Slice<'a>>,
    ) -> Result<Evaluated, Failure> {
        let encoding = entry.cie().encoding();
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.registers.get(register.0).ok_or(Failure::Unsupported)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.expression(section, expression, encoding, None)?,
        };
        let mut caller = *self.registers;
        caller.keep_callee_saved();
        caller.set(RSP, cfa);
        for number in 0..RIP {
            let Some(rule) = row.register(Register(number)) else { continue };
            match self.register(section, rule, cfa, encoding, number)? {
                Some(value) => caller.set(number, value),
                None => caller.forget(number),
            }
        }
        let column = entry.cie().return_address_register();
        let rule = match row.register(column) {
            Some(RegisterRule::Undefined) => return Ok(Evaluated::Root),
            Some(rule) => rule,
            None => return Err(Failure::Unsupported),
        };
        let ip = self.register(section, rule, cfa, encoding, column.0)?.ok_or(Failure::Unsupported)?;
        caller.set(RIP, ip);
        if caller.get(RSP).is_none() {
            return Err(Failure::Unsupported);
        }
        Ok(Evaluated::Caller { registers: caller, interrupted: entry.is_signal_trampoline() })
    }

    fn register<'a, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        rule: RegisterRule<usize>,
        cfa: u64,
        encoding: Encoding,
        number: u16,
    ) -> Result<Option<u64>, Failure> {
        Ok(match rule {
            RegisterRule::SameValue => self.registers.get(number),
            RegisterRule::Offset(offset) => Some(self.stack.word(cfa.wrapping_add_signed(offset))?),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => self.registers.get(other.0),
            RegisterRule::Expression(expression) => {
                let address = self.expression(section, &expression, encoding, Some(cfa))?;
                Some(self.stack.word(address)?)
            }
            RegisterRule::ValExpression(expression) => {
                Some(self.expression(section, &expression, encoding, Some(cfa))?)
            }
            RegisterRule::Constant(value) => Some(value),
            _ => None,
        })
    }

    fn expression<'a, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        expression: &UnwindExpression<usize>,
        encoding: Encoding,
        initial: Option<u64>,
    ) -> Result<u64, Failure> {
        let mut evaluation = expression.get(section)?.evaluation(encoding);
        evaluation.set_max_iterations(OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.registers.get(register.0).ok_or(Failure::Unsupported)?;
                    evaluation.resume_with_register(Value::Generic(value))?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self.stack.value(address, size)?;
                    evaluation.resume_with_memory(Value::Generic(value))?
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))?
                }
                _ => return Err(Failure::Unsupported),
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                gimli::Location::Address { address } => Ok(address),
                _ => Err(Failure::Unsupported),
            },
            _ => Err(Failure::Unsupported),
        }
    }
}
