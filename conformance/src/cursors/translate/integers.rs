//! Integers: methods with defined overflow, conversions, bits.

use super::super::Problem;
use super::super::program::{Type, unknown};
use super::super::terms::{Range, Sort, Term};
use super::values::Value;
use super::{Run, Scope};

/// An integer type by its name.
pub(super) fn integer(name: &str) -> Option<Type> {
    Some(match name {
        "u16" => Type::int(16, false),
        "u32" => Type::int(32, false),
        "u64" => Type::int(64, false),
        "i16" => Type::int(16, true),
        "i32" => Type::int(32, true),
        "i64" => Type::int(64, true),
        _ => return None,
    })
}

impl<'a> Run<'a> {
    /// The result of a method: of the sources, or of an integer.
    pub(super) fn method_call(
        &mut self,
        call: &syn::ExprMethodCall,
        scope: &Scope<'a>,
    ) -> Result<Value, Problem> {
        let receiver = self.inner(&call.receiver, scope, None)?;
        let mut arguments = Vec::new();
        for argument in &call.args {
            arguments.push(self.inner(argument, scope, None)?);
        }
        let name = call.method.to_string();
        let (term, range) = match receiver {
            Value::Int(term, range) => (term, range),
            Value::Struct(of, fields) => {
                arguments.insert(0, Value::Struct(of.clone(), fields));
                return self.call(&format!("{of}::{name}"), arguments, scope.path, scope.depth);
            }
            _ => return Err(unknown("such a method", call)),
        };
        let other = match arguments.pop() {
            Some(argument) => match self.typed(argument, &Type::Int(range))? {
                Value::Int(term, _) => Some(term),
                _ => None,
            },
            None => None,
        };
        if !arguments.is_empty() {
            return Err(unknown("such a method", call));
        }
        let most = self.terms.number(range.most());
        let (result, range) = match (name.as_str(), other, range.signed) {
            ("wrapping_add", Some(other), _) => {
                let sum = self.terms.apply("+", &[term, other], Sort::Int);
                (self.terms.wrapped_once(sum, range), range)
            }
            ("wrapping_sub", Some(other), _) => {
                let difference = self.terms.apply("-", &[term, other], Sort::Int);
                (self.terms.wrapped_once(difference, range), range)
            }
            ("wrapping_mul", Some(other), _) => {
                let product = self.terms.apply("*", &[term, other], Sort::Int);
                (self.terms.wrapped(product, range), range)
            }
            ("wrapping_neg", None, _) => {
                let negative = self.terms.apply("-", &[term], Sort::Int);
                (self.terms.wrapped_once(negative, range), range)
            }
            ("cast_signed" | "cast_unsigned", None, signed)
                if signed == (name == "cast_unsigned") =>
            {
                let range = Range {
                    signed: !signed,
                    ..range
                };
                (self.terms.wrapped_once(term, range), range)
            }
            ("min" | "max", Some(other), _) => {
                let first = if name == "min" { "<=" } else { ">=" };
                let first = self.terms.apply(first, &[term, other], Sort::Bool);
                (self.terms.ite(first, term, other), range)
            }
            ("saturating_add" | "saturating_mul", Some(other), false) => {
                let operator = if name == "saturating_add" { "+" } else { "*" };
                let exact = self.terms.apply(operator, &[term, other], Sort::Int);
                let fits = self.terms.apply("<=", &[exact, most], Sort::Bool);
                (self.terms.ite(fits, exact, most), range)
            }
            _ => return Err(unknown("such a method", call)),
        };
        Ok(Value::Int(result, range))
    }

    /// `value as to`.
    pub(super) fn cast_value(&mut self, value: Value, to: Range) -> Option<Value> {
        let term = match value {
            Value::Bool(truth) => self.truth_as_number(truth),
            Value::Int(term, _) => self.cast(term, to),
            _ => return None,
        };
        Some(Value::Int(term, to))
    }

    /// `a & b`, bit by bit where none of them is a mask of the lower or of all bits.
    pub(super) fn bits_of_both(&mut self, a: Term, b: Term, range: Range) -> Term {
        let (zero, one) = (self.terms.number(0), self.terms.number(1));
        for (value, mask) in [(a, b), (b, a)] {
            if let Some(mask) = self
                .terms
                .constant(mask)
                .filter(|mask| mask & (mask + 1) == 0)
            {
                let size = self.terms.number(mask + 1);
                return self.terms.apply("mod", &[value, size], Sort::Int);
            }
        }
        let mut all = zero;
        let bits = self.terms.bits(a).min(self.terms.bits(b));
        for bit in 0..bits {
            let place = self.terms.number(1 << bit);
            let two = self.terms.number(2);
            let [a, b] = [a, b].map(|each| {
                let shifted = self.terms.apply("div", &[each, place], Sort::Int);
                let bit = self.terms.apply("mod", &[shifted, two], Sort::Int);
                self.terms.apply("=", &[bit, one], Sort::Bool)
            });
            let both = self.terms.and(a, b);
            let term = self.terms.ite(both, place, zero);
            all = self.terms.apply("+", &[all, term], Sort::Int);
        }
        let most = self.terms.number(range.most());
        let none = self.terms.apply("=", &[b, zero], Sort::Bool);
        let every = self.terms.apply("=", &[b, most], Sort::Bool);
        let other = self.terms.ite(every, a, all);
        self.terms.ite(none, zero, other)
    }
}
