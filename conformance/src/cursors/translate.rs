//! Functions of Rust as terms: what a function returns, from what it is given.
//!
//! A function is followed along all its paths at once; where paths meet, each value is a
//! choice by the condition that parts them. Integers are those of their types' ranges, and
//! only methods with defined overflow are known: a plain `+` is refused.

mod expressions;
mod integers;
mod patterns;
mod values;

use std::collections::BTreeSet;

use super::Problem;
use super::program::{Program, Type, unknown};
use super::solver::Question;
use super::terms::{Term, Terms};
use values::Value;

/// Functions call each other no deeper than this.
const DEEPEST: usize = 16;

/// A law with symbolic arguments.
#[derive(Debug)]
pub(super) struct Formula {
    terms: Terms,
    applies: Term,
    fails: Term,
    called: BTreeSet<String>,
}

impl Formula {
    /// Asks for arguments to which the law applies and for which it holds.
    pub(super) fn applies(&self) -> Question {
        self.question(self.applies)
    }

    /// Asks for arguments for which the law, or an assertion in the code it calls, fails.
    pub(super) fn fails(&self) -> Question {
        self.question(self.fails)
    }

    /// Whether a function is called, directly or not.
    pub(super) fn calls(&self, function: &str) -> bool {
        self.called.contains(function)
    }

    fn question(&self, term: Term) -> Question {
        let declarations = self.terms.declarations();
        Question {
            text: format!("{declarations}(assert {})\n", self.terms.whole(term)),
            names: self.terms.parameters(),
        }
    }
}

/// Translates a law: a function whose result is `None` if the law does not apply to its
/// arguments, and otherwise whether it holds.
pub(super) fn law(program: &Program, name: &str) -> Result<Formula, Problem> {
    let mut run = Run::new(program);
    let result = run.whole(name)?;
    let (some, held) = run.option(&result)?;
    let held = held.ok_or_else(|| Problem::new(format!("{name}: never applies")))?;
    let Value::Bool(held) = held else {
        return Err(Problem::new(format!("{name}: is no law")));
    };
    let applies = run.terms.and(some, held);
    let not_held = run.terms.not(held);
    let mut fails = run.terms.and(some, not_held);
    for broken in std::mem::take(&mut run.broken) {
        fails = run.terms.or(fails, broken);
    }
    Ok(Formula {
        terms: run.terms,
        applies,
        fails,
        called: run.called,
    })
}

/// A function as functions of SMT-LIB, named `r0` and so on: one for each number in its
/// result, and a last one for whether an assertion of the code fails (1) or not (0).
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) text: String,
    parameters: usize,
    results: usize,
}

impl Numbers {
    /// Names of the functions, which have to be so many.
    pub(super) fn results(&self, count: usize) -> Result<impl Iterator<Item = String>, Problem> {
        match self.results == count {
            true => Ok((0..count).map(|number| format!("r{number}"))),
            false => Err(Problem::new("results differ in number")),
        }
    }

    /// How many arguments there are.
    pub(super) fn parameters(&self) -> usize {
        self.parameters
    }
}

/// Translates a function.
pub(super) fn function(program: &Program, name: &str) -> Result<Numbers, Problem> {
    let mut run = Run::new(program);
    let result = run.whole(name)?;
    let of_type = program.get(name).map(|function| &function.result);
    let of_type = of_type.ok_or_else(|| Problem::new(format!("no function {name}")))?;
    let mut all = run.flat(&result, of_type)?;
    let mut broken = run.terms.truth(false);
    for each in std::mem::take(&mut run.broken) {
        broken = run.terms.or(broken, each);
    }
    all.push(run.truth_as_number(broken));
    let (mut text, head) = (String::new(), run.terms.head());
    for (number, term) in all.iter().enumerate() {
        let body = run.terms.whole(*term);
        text += &format!("(define-fun r{number} ({head}) Int {body})\n");
    }
    Ok(Numbers {
        text,
        parameters: run.terms.parameters().len(),
        results: all.len(),
    })
}

/// Variables in scope, and how a place in a function is reached.
#[derive(Clone)]
struct Scope<'a> {
    variables: Vec<(String, Value)>,
    /// `Self`.
    of: Option<&'a str>,
    /// The condition under which this place is reached.
    path: Term,
    /// Whether the value of this place is the function's: `return` may be used.
    last: bool,
    depth: usize,
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        let mut inner_first = self.variables.iter().rev();
        inner_first
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }
}

struct Run<'a> {
    program: &'a Program,
    terms: Terms,
    called: BTreeSet<String>,
    /// Conditions under which an assertion of the code fails.
    broken: Vec<Term>,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program) -> Self {
        Self {
            program,
            terms: Terms::default(),
            called: BTreeSet::new(),
            broken: Vec::new(),
        }
    }

    /// A function with symbolic arguments.
    fn whole(&mut self, name: &str) -> Result<Value, Problem> {
        let program = self.program;
        let function = program.get(name);
        let function = function.ok_or_else(|| Problem::new(format!("no function {name}")))?;
        let mut arguments = Vec::new();
        for (parameter, of_type) in &function.parameters {
            arguments.push(self.symbolic(parameter, of_type)?);
        }
        let path = self.terms.truth(true);
        let named = |problem: Problem| Problem::new(format!("{name}: {problem}"));
        self.call(name, arguments, path, 0).map_err(named)
    }

    fn symbolic(&mut self, name: &str, of_type: &Type) -> Result<Value, Problem> {
        Ok(match of_type {
            Type::Int(range) => Value::Int(self.terms.parameter(name, *range), *range),
            Type::Named(of) => {
                let program = self.program;
                let fields = program.fields(of);
                let fields =
                    fields.ok_or_else(|| Problem::new(format!("{name}: argument of type {of}")))?;
                let each = fields.iter().map(|(field, of_type)| {
                    let value = self.symbolic(&format!("{name}.{field}"), of_type)?;
                    Ok((field.clone(), value))
                });
                Value::Struct(of.clone(), each.collect::<Result<_, Problem>>()?)
            }
            other => return Err(Problem::new(format!("{name}: argument of type {other:?}"))),
        })
    }

    /// The result of a function that is reached under `path`.
    fn call(
        &mut self,
        name: &str,
        arguments: Vec<Value>,
        path: Term,
        depth: usize,
    ) -> Result<Value, Problem> {
        let program = self.program;
        let function = program.get(name);
        let function = function.ok_or_else(|| Problem::new(format!("no function {name}")))?;
        if depth > DEEPEST || arguments.len() != function.parameters.len() {
            return Err(Problem::new(format!("{name}: cannot be called so")));
        }
        self.called.insert(name.to_owned());
        let mut scope = Scope {
            variables: Vec::new(),
            of: function.of.as_deref(),
            path,
            last: true,
            depth: depth + 1,
        };
        for ((parameter, of_type), argument) in function.parameters.iter().zip(arguments) {
            let argument = self.typed(argument, of_type)?;
            scope.variables.push((parameter.clone(), argument));
        }
        let result = self.block(&function.body.stmts, scope, Some(&function.result))?;
        self.typed(result, &function.result)
    }

    /// The value of statements: of the function, if they are its last ones.
    fn block(
        &mut self,
        statements: &[syn::Stmt],
        mut scope: Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        for (at, statement) in statements.iter().enumerate() {
            let rest = &statements[at + 1..];
            match statement {
                syn::Stmt::Local(local) => {
                    let init = local.init.as_ref();
                    let init = init.ok_or_else(|| unknown("a variable without value", local))?;
                    let (pattern, of_type) = match &local.pat {
                        syn::Pat::Type(typed) => {
                            let of_type = self.program.type_of(&typed.ty, scope.of)?;
                            (&*typed.pat, Some(of_type))
                        }
                        pattern => (pattern, None),
                    };
                    if let (syn::Expr::Try(tried), syn::Pat::Ident(name)) = (&*init.expr, pattern) {
                        return self.tried(tried, name, rest, scope, expected);
                    }
                    if init.diverge.is_some() {
                        return Err(unknown("let-else", local));
                    }
                    let value = self.inner(&init.expr, &scope, of_type.as_ref())?;
                    let (matched, bound) = self.matched(pattern, &value)?;
                    if matched != self.terms.truth(true) {
                        return Err(unknown("a pattern that may not match", local));
                    }
                    scope.variables.extend(bound);
                }
                syn::Stmt::Expr(syn::Expr::If(condition), _) if condition.else_branch.is_none() => {
                    let (holds, bound) = self.condition(&condition.cond, &scope)?;
                    let mut then = scope.clone();
                    then.path = self.terms.and(scope.path, holds);
                    then.variables.extend(bound);
                    let then = self.leaves_block(&condition.then_branch, then, expected)?;
                    let not = self.terms.not(holds);
                    scope.path = self.terms.and(scope.path, not);
                    let rest = self.block(rest, scope, expected)?;
                    return self.choice(holds, then, rest);
                }
                syn::Stmt::Expr(syn::Expr::Return(value), _) if scope.last => {
                    let value = value.expr.as_ref();
                    let value = value.ok_or_else(|| unknown("no value", statement))?;
                    return self.inner(value, &scope, expected);
                }
                syn::Stmt::Expr(value, None) if rest.is_empty() => {
                    return self.expression(value, &scope, expected);
                }
                syn::Stmt::Macro(asserted) if asserted.mac.path.is_ident("debug_assert") => {
                    let parsed: syn::Expr = asserted
                        .mac
                        .parse_body()
                        .map_err(|_| unknown("such an assertion", asserted))?;
                    let (holds, _) = self.condition(&parsed, &scope)?;
                    let not = self.terms.not(holds);
                    let broken = self.terms.and(scope.path, not);
                    self.broken.push(broken);
                }
                other => return Err(unknown("such a statement", other)),
            }
        }
        Err(Problem::new("a block without a value"))
    }

    /// `let name = value?;` and what follows: `None` where the value is none.
    fn tried(
        &mut self,
        tried: &syn::ExprTry,
        name: &syn::PatIdent,
        rest: &[syn::Stmt],
        mut scope: Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        let value = self.inner(&tried.expr, &scope, None)?;
        let (some, value) = self.option(&value)?;
        let value = value.filter(|_| scope.last);
        let value = value.ok_or_else(|| unknown("such a `?`", tried))?;
        let always = self.terms.truth(true);
        let none = values::variant("None", always, None);
        scope.path = self.terms.and(scope.path, some);
        scope.variables.push((name.ident.to_string(), value));
        let rest = self.block(rest, scope, expected)?;
        self.choice(some, rest, none)
    }

    /// The value of the function where a block leaves it.
    fn leaves_block(
        &mut self,
        block: &syn::Block,
        scope: Scope<'a>,
        expected: Option<&Type>,
    ) -> Result<Value, Problem> {
        match block.stmts.last() {
            Some(syn::Stmt::Expr(syn::Expr::Return(_), _)) if scope.last => {
                self.block(&block.stmts, scope, expected)
            }
            _ => Err(unknown("a block that does not return", block)),
        }
    }
}
