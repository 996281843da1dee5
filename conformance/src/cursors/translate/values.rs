//! Values of Rust, made of terms.

use super::super::Problem;
use super::super::program::Type;
use super::super::terms::{Range, Sort, Term};
use super::Run;

/// Numbers of 64 bits.
const U64: Range = Range {
    width: 64,
    signed: false,
};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Bool(Term),
    Int(Term, Range),
    /// An integer whose type its use decides.
    Literal(i128),
    Struct(String, Vec<(String, Value)>),
    /// What it may be; one of the conditions is true.
    Enum(Vec<Variant>),
}

/// A variant of an enum.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    /// The condition under which the value is this variant.
    pub(super) when: Term,
    pub(super) payload: Option<Box<Value>>,
}

/// An enum's variant by itself.
pub(super) fn variant(name: &str, when: Term, payload: Option<Value>) -> Value {
    Value::Enum(vec![Variant {
        name: name.to_owned(),
        when,
        payload: payload.map(Box::new),
    }])
}

fn differ(a: &Value, b: &Value) -> Problem {
    Problem::new(format!("types differ: {a:?} and {b:?}"))
}

impl Run<'_> {
    /// A value that is to be of a type: literals become so.
    pub(super) fn typed(&mut self, value: Value, of_type: &Type) -> Result<Value, Problem> {
        match (value, of_type) {
            (Value::Literal(literal), Type::Int(range)) => {
                if literal > range.most() {
                    return Err(Problem::new(format!("{literal} is too large")));
                }
                Ok(Value::Int(self.terms.number(literal), *range))
            }
            (Value::Int(term, a), Type::Int(b)) if a == *b => Ok(Value::Int(term, a)),
            (Value::Bool(term), Type::Bool) => Ok(Value::Bool(term)),
            (Value::Struct(name, fields), Type::Named(wanted)) if name == *wanted => {
                Ok(Value::Struct(name, fields))
            }
            (Value::Enum(mut variants), of_type) => {
                for variant in &mut variants {
                    let payload = variant.payload.take();
                    let inner = self.payload_type(of_type, &variant.name)?;
                    variant.payload = match (payload, inner) {
                        (Some(payload), Some(inner)) => {
                            Some(Box::new(self.typed(*payload, &inner)?))
                        }
                        (None, None) => None,
                        _ => return Err(Problem::new(format!("{}: payload", variant.name))),
                    };
                }
                Ok(Value::Enum(variants))
            }
            (value, of_type) => Err(Problem::new(format!("{value:?} is no {of_type:?}"))),
        }
    }

    /// Variants of a type, in the order in which they are numbered.
    fn variants_of(&self, of_type: &Type) -> Result<Vec<(String, Option<Type>)>, Problem> {
        Ok(match of_type {
            Type::Option(inner) => vec![
                ("None".to_owned(), None),
                ("Some".to_owned(), Some((**inner).clone())),
            ],
            Type::Result(value, error) => vec![
                ("Ok".to_owned(), Some((**value).clone())),
                ("Err".to_owned(), Some((**error).clone())),
            ],
            Type::Named(name) => match self.program.variants(name) {
                Some(variants) => variants.to_vec(),
                None => return Err(Problem::new(format!("{name} is no enum"))),
            },
            other => return Err(Problem::new(format!("{other:?} is no enum"))),
        })
    }

    fn payload_type(&self, of_type: &Type, name: &str) -> Result<Option<Type>, Problem> {
        let variants = self.variants_of(of_type)?;
        let found = variants.into_iter().find(|(known, _)| known == name);
        found
            .map(|(_, payload)| payload)
            .ok_or_else(|| Problem::new(format!("{of_type:?} has no {name}")))
    }

    /// The first value under a condition, else the second.
    pub(super) fn choice(
        &mut self,
        condition: Term,
        then: Value,
        otherwise: Value,
    ) -> Result<Value, Problem> {
        match (then, otherwise) {
            (Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(self.terms.ite(condition, a, b))),
            (Value::Int(a, range), Value::Int(b, other)) if range == other => {
                Ok(Value::Int(self.terms.ite(condition, a, b), range))
            }
            (Value::Int(a, range), literal @ Value::Literal(_)) => {
                let literal = self.typed(literal, &Type::Int(range))?;
                self.choice(condition, Value::Int(a, range), literal)
            }
            (literal @ Value::Literal(_), Value::Int(b, range)) => {
                let literal = self.typed(literal, &Type::Int(range))?;
                self.choice(condition, literal, Value::Int(b, range))
            }
            (Value::Struct(name, a), Value::Struct(other, b)) if name == other => {
                let both = a.into_iter().zip(b);
                let fields =
                    both.map(|((field, a), (_, b))| Ok((field, self.choice(condition, a, b)?)));
                Ok(Value::Struct(name, fields.collect::<Result<_, Problem>>()?))
            }
            (Value::Enum(a), Value::Enum(b)) => self.choice_of_variants(condition, a, b),
            (a, b) => Err(differ(&a, &b)),
        }
    }

    fn choice_of_variants(
        &mut self,
        condition: Term,
        then: Vec<Variant>,
        mut otherwise: Vec<Variant>,
    ) -> Result<Value, Problem> {
        let never = self.terms.not(condition);
        let mut all = Vec::new();
        for a in then {
            let at = otherwise.iter().position(|b| b.name == a.name);
            let b = at.map(|at| otherwise.remove(at));
            let mut when = self.terms.and(condition, a.when);
            let mut payload = a.payload;
            if let Some(b) = b {
                let other = self.terms.and(never, b.when);
                when = self.terms.or(when, other);
                payload = match (payload, b.payload) {
                    (Some(a), Some(b)) => Some(Box::new(self.choice(condition, *a, *b)?)),
                    (None, None) => None,
                    _ => return Err(Problem::new("payloads differ")),
                };
            }
            let name = a.name;
            all.push(Variant {
                name,
                when,
                payload,
            });
        }
        for b in otherwise {
            let when = self.terms.and(never, b.when);
            all.push(Variant { when, ..b });
        }
        Ok(Value::Enum(all))
    }

    /// Whether two values are equal, as derived by Rust.
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Result<Term, Problem> {
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => Ok(self.terms.apply("=", &[*a, *b], Sort::Bool)),
            (Value::Int(a, range), Value::Int(b, other)) if range == other => {
                Ok(self.terms.apply("=", &[*a, *b], Sort::Bool))
            }
            (Value::Int(_, range), literal @ Value::Literal(_)) => {
                let literal = self.typed(literal.clone(), &Type::Int(*range))?;
                self.equal(a, &literal)
            }
            (Value::Literal(_), Value::Int(..)) => self.equal(b, a),
            (Value::Struct(name, a), Value::Struct(other, b)) if name == other => {
                let mut all = self.terms.truth(true);
                for ((_, a), (_, b)) in a.iter().zip(b) {
                    let same = self.equal(a, b)?;
                    all = self.terms.and(all, same);
                }
                Ok(all)
            }
            (Value::Enum(a), Value::Enum(b)) => {
                let mut any = self.terms.truth(false);
                for a in a {
                    for b in b.iter().filter(|b| b.name == a.name) {
                        let mut same = self.terms.and(a.when, b.when);
                        if let (Some(a), Some(b)) = (&a.payload, &b.payload) {
                            let payload = self.equal(a, b)?;
                            same = self.terms.and(same, payload);
                        }
                        any = self.terms.or(any, same);
                    }
                }
                Ok(any)
            }
            (a, b) => Err(differ(a, b)),
        }
    }

    /// An `Option`: whether it is `Some`, and what is in it if it can be.
    pub(super) fn option(&mut self, value: &Value) -> Result<(Term, Option<Value>), Problem> {
        let Value::Enum(variants) = value else {
            return Err(Problem::new(format!("{value:?} is no Option")));
        };
        let some = variants.iter().find(|variant| variant.name == "Some");
        Ok(match some {
            Some(some) => (some.when, some.payload.as_deref().cloned()),
            None => (self.terms.truth(false), None),
        })
    }

    /// True as 1, false as 0.
    pub(super) fn truth_as_number(&mut self, truth: Term) -> Term {
        let (one, zero) = (self.terms.number(1), self.terms.number(0));
        self.terms.ite(truth, one, zero)
    }

    /// All numbers in a value, those below 0 as numbers of 64 bits without a sign, in the order of `points/values.rs`.
    pub(super) fn flat(&mut self, value: &Value, of_type: &Type) -> Result<Vec<Term>, Problem> {
        Ok(match (value, of_type) {
            (Value::Bool(truth), Type::Bool) => vec![self.truth_as_number(*truth)],
            (Value::Int(term, _), Type::Int(_)) => vec![self.cast(*term, U64)],
            (Value::Struct(_, values), Type::Named(name)) => {
                let program = self.program;
                let types = program.fields(name).unwrap_or_default();
                let mut all = Vec::new();
                for ((_, value), (_, of_type)) in values.iter().zip(types) {
                    all.extend(self.flat(value, of_type)?);
                }
                all
            }
            (Value::Enum(variants), of_type) => self.flat_enum(variants, of_type)?,
            (value, of_type) => {
                return Err(Problem::new(format!("{value:?} is no {of_type:?}")));
            }
        })
    }

    /// The number of the variant, then what each variant has, 0 if the value is another one.
    fn flat_enum(&mut self, variants: &[Variant], of_type: &Type) -> Result<Vec<Term>, Problem> {
        let zero = self.terms.number(0);
        let mut all = vec![zero];
        for (number, (name, payload)) in self.variants_of(of_type)?.into_iter().enumerate() {
            let known = variants.iter().find(|variant| variant.name == name);
            if let Some(known) = known {
                let number = self.terms.number(number as i128);
                all[0] = self.terms.ite(known.when, number, all[0]);
            }
            let Some(payload) = payload else { continue };
            match known.and_then(|known| Some((known.when, known.payload.as_deref()?))) {
                Some((when, value)) => {
                    for term in self.flat(value, &payload)? {
                        let shown = self.terms.ite(when, term, zero);
                        all.push(shown);
                    }
                }
                None => all.resize(all.len() + self.width(&payload)?, zero),
            }
        }
        Ok(all)
    }

    /// How many numbers a value of a type has.
    fn width(&self, of_type: &Type) -> Result<usize, Problem> {
        let fields = match of_type {
            Type::Named(name) => self.program.fields(name),
            _ => None,
        };
        match (of_type, fields) {
            (Type::Bool | Type::Int(_), _) => Ok(1),
            (_, Some(fields)) => fields.iter().map(|(_, of_type)| self.width(of_type)).sum(),
            (other, None) => {
                let variants = self.variants_of(other)?;
                let payloads = variants.iter().filter_map(|(_, payload)| payload.as_ref());
                let each = payloads.map(|payload| self.width(payload));
                Ok(1 + each.sum::<Result<usize, _>>()?)
            }
        }
    }

    /// An integer as one of another type; what it has too much is left out.
    pub(super) fn cast(&mut self, term: Term, to: Range) -> Term {
        self.terms.wrapped(term, to)
    }
}
