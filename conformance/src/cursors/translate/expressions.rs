//! Expressions.

use syn::{BinOp, Expr};

use super::super::Problem;
use super::super::program::{Type, unknown};
use super::super::terms::Sort;
use super::integers::integer;
use super::patterns::last;
use super::values::{Value, variant};
use super::{Run, Scope};

impl<'a> Run<'a> {
    /// The value of an expression that is not the function's.
    pub(super) fn inner(
        &mut self,
        expression: &Expr,
        scope: &Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        let mut scope = scope.clone();
        scope.last = false;
        self.expression(expression, &scope, expected)
    }

    /// The value of an expression; `expected` is its type where that is known.
    pub(super) fn expression(
        &mut self,
        expression: &Expr,
        scope: &Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        let value = self.untyped(expression, scope, expected)?;
        match (value, expected) {
            (value @ Value::Literal(_), Some(of_type)) => self.typed(value, of_type),
            (value, _) => Ok(value),
        }
    }

    fn untyped(
        &mut self,
        expression: &Expr,
        scope: &Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        match expression {
            Expr::Paren(paren) => self.expression(&paren.expr, scope, expected),
            Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Bool(truth) => Ok(Value::Bool(self.terms.truth(truth.value))),
                syn::Lit::Int(number) => {
                    let value = number.base10_parse();
                    let value = value.map_err(|_| unknown("such a number", expression))?;
                    match (number.suffix(), integer(number.suffix())) {
                        ("", _) => Ok(Value::Literal(value)),
                        (_, Some(of_type)) => self.typed(Value::Literal(value), &of_type),
                        _ => Err(unknown("such a number", expression)),
                    }
                }
                _ => Err(unknown("such a literal", expression)),
            },
            Expr::Path(path) => self.path(&path.path, scope),
            Expr::Field(field) => {
                let (Value::Struct(_, fields), syn::Member::Named(name)) =
                    (self.inner(&field.base, scope, None)?, &field.member)
                else {
                    return Err(unknown("such a field", expression));
                };
                let found = fields.into_iter().find(|(known, _)| name == known);
                found
                    .map(|(_, value)| value)
                    .ok_or_else(|| unknown("such a field", expression))
            }
            Expr::Struct(with) if with.rest.is_none() => {
                let name = match (last(&with.path), scope.of) {
                    (name, Some(of)) if name == "Self" => of.to_owned(),
                    (name, _) => name,
                };
                let program = self.program;
                let fields = program.fields(&name);
                let fields = fields.ok_or_else(|| unknown("such a struct", expression))?;
                let mut values = Vec::new();
                for (field, of_type) in fields {
                    let mut given = with.fields.iter();
                    let given = given.find(
                        |given| matches!(&given.member, syn::Member::Named(name) if name == field),
                    );
                    let given = given.ok_or_else(|| unknown("a field is missing", expression))?;
                    let value = self.inner(&given.expr, scope, Some(of_type))?;
                    values.push((field.clone(), self.typed(value, of_type)?));
                }
                Ok(Value::Struct(name, values))
            }
            Expr::If(condition) => {
                let otherwise = condition.else_branch.as_ref();
                let (_, otherwise) = otherwise.ok_or_else(|| unknown("no else", expression))?;
                let (holds, bound) = self.condition(&condition.cond, scope)?;
                let mut then = scope.clone();
                then.path = self.terms.and(scope.path, holds);
                then.variables.extend(bound);
                let then = self.block(&condition.then_branch.stmts, then, expected)?;
                let not = self.terms.not(holds);
                let mut scope = scope.clone();
                scope.path = self.terms.and(scope.path, not);
                let otherwise = self.expression(otherwise, &scope, expected)?;
                self.choice(holds, then, otherwise)
            }
            Expr::Block(block) => self.block(&block.block.stmts, scope.clone(), expected),
            Expr::Match(matching) => self.matching(matching, scope, expected),
            Expr::Unary(unary) => match (&unary.op, self.inner(&unary.expr, scope, None)?) {
                (syn::UnOp::Not(_), Value::Bool(term)) => Ok(Value::Bool(self.terms.not(term))),
                _ => Err(unknown("such an operator", expression)),
            },
            Expr::Binary(binary) => self.binary(binary, scope),
            Expr::Cast(cast) => {
                let Type::Int(to) = self.program.type_of(&cast.ty, scope.of)? else {
                    return Err(unknown("such a cast", expression));
                };
                let value = self.inner(&cast.expr, scope, None)?;
                self.cast_value(value, to)
                    .ok_or_else(|| unknown("such a cast", expression))
            }
            Expr::Call(call) => self.function_call(call, scope, expected),
            Expr::MethodCall(call) => self.method_call(call, scope),
            other => Err(unknown("such an expression", other)),
        }
    }

    fn path(&mut self, path: &syn::Path, scope: &Scope<'a>) -> Result<Value, Problem> {
        if let Some(value) = path
            .get_ident()
            .and_then(|name| scope.get(&name.to_string()))
        {
            return Ok(value);
        }
        let always = self.terms.truth(true);
        let name = last(path);
        let mut segments = path.segments.iter().rev().skip(1);
        let Some(of) = segments.next().map(|segment| segment.ident.to_string()) else {
            return match name.as_str() {
                "None" => Ok(variant("None", always, None)),
                _ => Err(unknown("such a name", path)),
            };
        };
        if let (Some(Type::Int(range)), "MAX") = (integer(&of), name.as_str()) {
            return Ok(Value::Int(self.terms.number(range.most()), range));
        }
        let of = match (of.as_str(), scope.of) {
            ("Self", Some(of)) => of.to_owned(),
            _ => of,
        };
        let program = self.program;
        if let Some((of_type, value)) = program.constant(&format!("{of}::{name}")) {
            let value = self.inner(value, scope, Some(of_type))?;
            return self.typed(value, of_type);
        }
        let variants = program.variants(&of).unwrap_or_default();
        match variants.iter().find(|(known, _)| *known == name) {
            Some((_, None)) => Ok(variant(&name, always, None)),
            _ => Err(unknown("such a name", path)),
        }
    }

    fn matching(
        &mut self,
        matching: &syn::ExprMatch,
        scope: &Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        let value = self.inner(&matching.expr, scope, None)?;
        let mut scope = scope.clone();
        let mut arms = Vec::new();
        for arm in &matching.arms {
            let (pattern, guard) = match &arm.pat {
                syn::Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
                pattern => (pattern, None),
            };
            let (mut taken, bound) = self.matched(pattern, &value)?;
            let mut inside = scope.clone();
            inside.variables.extend(bound);
            if let Some(guard) = guard {
                let (holds, bound) = self.condition(guard, &inside)?;
                inside.variables.extend(bound);
                taken = self.terms.and(taken, holds);
            }
            inside.path = self.terms.and(scope.path, taken);
            arms.push((taken, self.expression(&arm.body, &inside, expected)?));
            let not = self.terms.not(taken);
            scope.path = self.terms.and(scope.path, not);
        }
        // The compiler has checked that one of the arms is taken: the last one, if no other.
        let last = arms.pop().ok_or_else(|| unknown("no arms", matching))?;
        arms.into_iter()
            .rev()
            .try_fold(last.1, |rest, (taken, value)| {
                self.choice(taken, value, rest)
            })
    }

    fn binary(&mut self, binary: &syn::ExprBinary, scope: &Scope<'a>) -> Result<Value, Problem> {
        let left = self.inner(&binary.left, scope, None)?;
        let mut right_scope = scope.clone();
        // The right side of `&&` and `||` is reached only if the left one does not decide.
        match (&binary.op, &left) {
            (BinOp::And(_), Value::Bool(left)) => {
                right_scope.path = self.terms.and(scope.path, *left);
            }
            (BinOp::Or(_), Value::Bool(left)) => {
                let not = self.terms.not(*left);
                right_scope.path = self.terms.and(scope.path, not);
            }
            _ => {}
        }
        let right = self.inner(&binary.right, &right_scope, None)?;
        if let (BinOp::Eq(_) | BinOp::Ne(_), left, right) = (&binary.op, &left, &right) {
            let equal = self.equal(left, right)?;
            return Ok(Value::Bool(match binary.op {
                BinOp::Eq(_) => equal,
                _ => self.terms.not(equal),
            }));
        }
        let (left, right) = match (left, right) {
            (Value::Literal(left), Value::Literal(right)) => {
                let shift = u32::try_from(right).ok();
                let shifted = shift.and_then(|by| left.checked_shl(by));
                return match (&binary.op, shifted) {
                    (BinOp::Shl(_), Some(shifted)) => Ok(Value::Literal(shifted)),
                    _ => Err(unknown("such an operator", binary)),
                };
            }
            (left @ Value::Int(_, range), right) => (left, self.typed(right, &Type::Int(range))?),
            (left, right @ Value::Int(_, range)) => (self.typed(left, &Type::Int(range))?, right),
            both => both,
        };
        match (&binary.op, left, right) {
            (BinOp::And(_), Value::Bool(a), Value::Bool(b)) => {
                Ok(Value::Bool(self.terms.and(a, b)))
            }
            (BinOp::Or(_), Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(self.terms.or(a, b))),
            (BinOp::BitAnd(_), Value::Int(a, range), Value::Int(b, _)) if !range.signed => {
                Ok(Value::Int(self.bits_of_both(a, b, range), range))
            }
            (BinOp::BitOr(_), Value::Int(a, range), Value::Int(b, _)) if !range.signed => {
                // Bits of either are those of both less than their sum.
                let both = self.bits_of_both(a, b, range);
                let sum = self.terms.apply("+", &[a, b], Sort::Int);
                let either = self.terms.apply("-", &[sum, both], Sort::Int);
                Ok(Value::Int(either, range))
            }
            (compared, Value::Int(a, _), Value::Int(b, _)) => {
                let operator = match compared {
                    BinOp::Lt(_) => "<",
                    BinOp::Le(_) => "<=",
                    BinOp::Gt(_) => ">",
                    BinOp::Ge(_) => ">=",
                    _ => return Err(unknown("such an operator", binary)),
                };
                Ok(Value::Bool(self.terms.apply(operator, &[a, b], Sort::Bool)))
            }
            _ => Err(unknown("such an operator", binary)),
        }
    }

    fn function_call(
        &mut self,
        call: &syn::ExprCall,
        scope: &Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        let Expr::Path(path) = &*call.func else {
            return Err(unknown("such a call", call));
        };
        let name = last(&path.path);
        let mut segments = path.path.segments.iter().rev().skip(1);
        let of = segments.next().map(|segment| segment.ident.to_string());
        let always = self.terms.truth(true);
        let payload = match (name.as_str(), &of, expected) {
            ("Some", None, Some(Type::Option(inner))) => Some(Some(&**inner)),
            ("Ok", None, Some(Type::Result(value, _))) => Some(Some(&**value)),
            ("Err", None, Some(Type::Result(_, error))) => Some(Some(&**error)),
            ("Some" | "Ok" | "Err", None, _) => Some(None),
            _ => None,
        };
        let mut arguments = Vec::new();
        for argument in &call.args {
            arguments.push(self.inner(argument, scope, payload.flatten())?);
        }
        if payload.is_some() {
            return Ok(variant(&name, always, arguments.pop()));
        }
        let of = match (of, scope.of) {
            (Some(of), Some(own)) if of == "Self" => Some(own.to_owned()),
            (of, _) => of,
        };
        let Some(of) = of else {
            return self.call(&name, arguments, scope.path, scope.depth);
        };
        if let Some(variants) = self.program.variants(&of) {
            return match variants.iter().find(|(known, _)| *known == name) {
                Some((_, Some(of_type))) if arguments.len() == 1 => {
                    let value = self.typed(arguments.remove(0), &of_type.clone())?;
                    Ok(variant(&name, always, Some(value)))
                }
                _ => Err(unknown("such a call", call)),
            };
        }
        match (integer(&of), name.as_str(), arguments.len()) {
            (Some(Type::Int(to)), "from", 1) => {
                let value = arguments.remove(0);
                let widens = match &value {
                    Value::Bool(_) => true,
                    Value::Int(_, from) => from.width < to.width && (!from.signed || to.signed),
                    _ => false,
                };
                let cast = self.cast_value(value, to).filter(|_| widens);
                cast.ok_or_else(|| unknown("such a conversion", call))
            }
            (Some(Type::Int(to)), "try_from", 1) => {
                let Value::Int(term, _) = arguments.remove(0) else {
                    return Err(unknown("such a conversion", call));
                };
                let fits = self.terms.within(term, to);
                // The error has nothing that the code could read.
                let error = variant("Err", always, Some(Value::Bool(always)));
                let value = self.cast(term, to);
                let value = variant("Ok", always, Some(Value::Int(value, to)));
                self.choice(fits, value, error)
            }
            (None, ..) => self.call(&format!("{of}::{name}"), arguments, scope.path, scope.depth),
            _ => Err(unknown("such a call", call)),
        }
    }
}
