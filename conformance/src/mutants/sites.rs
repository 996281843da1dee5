//! Places of a source where a small change can be made, found in its syntax: operators,
//! conditions, guards, numbers, early returns, statements and arms left out. Code that only
//! tests compile, and code that only prints, has none.

mod exchanges;

use std::ops::Range;

use self::exchanges::{METHODS, comparison, has_let, others};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Pat, Stmt, UnOp};

/// A change at a place of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Bytes of the source that the change is about; empty if it only puts something in.
    pub(super) range: Range<usize>,
    pub(super) form: Form,
    /// The change in words, with the text it is about.
    pub(super) what: String,
    /// Name of the function around the place.
    pub(super) function: String,
    /// Line and column, from 1.
    pub(super) at: (usize, usize),
    /// Bytes of the `const` of the functions around it: a function that chooses at run time is
    /// not constant.
    pub(super) constants: Vec<Range<usize>>,
    /// Whether it is about code for tests alone: fingerprints.
    pub(super) off: bool,
}

/// How a change is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The expression becomes this one.
    Expression(String),
    /// The statement does not run.
    Statement,
    /// A statement that runs first.
    Inserted(String),
    /// The arm never matches.
    Arm,
}

/// All changes that can be made in a source, in the order of their places.
pub(super) fn sites(text: &str) -> Result<Vec<Site>, syn::Error> {
    let mut finder = Finder {
        text,
        function: String::new(),
        constants: Vec::new(),
        sites: Vec::new(),
    };
    finder.visit_file(&syn::parse_file(text)?);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| (site.range.start, site.range.end));
    Ok(sites)
}

struct Finder<'a> {
    text: &'a str,
    function: String,
    constants: Vec<Range<usize>>,
    sites: Vec<Site>,
}

impl<'a> Finder<'a> {
    fn source(&self, span: Span) -> &'a str {
        &self.text[span.byte_range()]
    }

    fn add(&mut self, span: Span, form: Form, what: impl Into<String>) {
        let begin = span.start();
        self.put(
            span.byte_range(),
            (begin.line, begin.column + 1),
            form,
            what.into(),
        );
    }

    /// Nothing outside of functions can be chosen at run time.
    fn put(&mut self, range: Range<usize>, at: (usize, usize), form: Form, what: String) {
        if !self.function.is_empty() {
            self.sites.push(Site {
                range,
                form,
                what: what.split_whitespace().collect::<Vec<_>>().join(" "),
                function: self.function.clone(),
                at,
                constants: self.constants.clone(),
                off: self.function == "fingerprint",
            });
        }
    }

    fn replace(&mut self, whole: Span, part: Span, with: &str) {
        let (whole_range, part_range) = (whole.byte_range(), part.byte_range());
        let before = &self.text[whole_range.start..part_range.start];
        let after = &self.text[part_range.end..whole_range.end];
        let changed = format!("{before}{with}{after}");
        let what = format!("{} => {changed}", self.source(whole));
        self.add(whole, Form::Expression(changed), what);
    }

    fn negated(&mut self, condition: &Expr) {
        // Their own operators turn these round.
        let own = match condition {
            Expr::Binary(binary) => comparison(&binary.op),
            Expr::Unary(unary) => matches!(unary.op, UnOp::Not(_)),
            _ => false,
        };
        if !own && !has_let(condition) {
            let text = self.source(condition.span());
            let what = format!("if {text} => if !({text})");
            self.add(
                condition.span(),
                Form::Expression(format!("!({text})")),
                what,
            );
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let outer = std::mem::replace(&mut self.function, signature.ident.to_string());
        let constant = signature.constness.as_ref();
        self.constants
            .extend(constant.map(|token| token.span.byte_range()));
        if !block.stmts.is_empty() {
            self.returns_early(signature, block);
        }
        self.visit_block(block);
        if constant.is_some() {
            self.constants.pop();
        }
        self.function = outer;
    }

    fn returns_early(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let output = match &signature.output {
            syn::ReturnType::Default => String::new(),
            syn::ReturnType::Type(_, output) => self.source(output.span()).to_owned(),
        };
        let numbers = ["u8", "u16", "u32", "u64", "usize", "i32", "i64"];
        let values: &[&str] = match output.as_str() {
            "" => &[""],
            "bool" => &["true", "false"],
            number if numbers.contains(&number) => &["0", "1"],
            option if option.starts_with("Option<") => &["None"],
            result if result.starts_with("Result<(),") || result == "io::Result<()>" => &["Ok(())"],
            "!" => &[],
            open if open.starts_with("impl ") || open.contains('&') => &[],
            _ => &["Default::default()"],
        };
        let brace = block.brace_token.span.open();
        let (behind, at) = (brace.byte_range().end, signature.ident.span().start());
        for value in values {
            let statement = format!("return {value};");
            let what = format!("{} begins with {statement}", signature.ident);
            let form = Form::Inserted(statement);
            self.put(behind..behind, (at.line, at.column + 1), form, what);
        }
    }

    fn left_out(&mut self, statement: &Stmt, last: bool) {
        let goes = match statement {
            Stmt::Expr(_, Some(_)) => true,
            // The last one is the value of the block.
            Stmt::Expr(block, None) => {
                !last
                    && matches!(
                        block,
                        Expr::If(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Match(_)
                    )
            }
            Stmt::Macro(call) => !call.mac.path.segments.iter().any(|segment| {
                let name = segment.ident.to_string();
                name.contains("assert") || name == "unreachable"
            }),
            _ => false,
        };
        if goes {
            let text = self.source(statement.span());
            let shown: String = text.chars().take(90).collect();
            self.add(
                statement.span(),
                Form::Statement,
                format!("left out: {shown}"),
            );
        }
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if compiled(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let of_trait = item
            .trait_
            .as_ref()
            .and_then(|(path, _)| path.segments.last());
        let prints = of_trait.is_some_and(|name| name.ident == "Debug" || name.ident == "Display");
        if compiled(&item.attrs) && !prints {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if compiled(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if compiled(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // What is decided when the program is compiled cannot be chosen when it runs.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
    fn visit_expr_repeat(&mut self, array: &'a syn::ExprRepeat) {
        self.visit_expr(&array.expr);
    }

    fn visit_pat(&mut self, pattern: &'a Pat) {
        if let Pat::Guard(guarded) = pattern {
            let guard = &guarded.guard;
            if !has_let(guard) {
                for value in ["true", "false"] {
                    let what = format!("guard {} => {value}", self.source(guard.span()));
                    self.add(guard.span(), Form::Expression(value.to_owned()), what);
                }
            }
            self.visit_expr(guard);
        }
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        for (at, statement) in block.stmts.iter().enumerate() {
            self.left_out(statement, at + 1 == block.stmts.len());
        }
        visit::visit_block(self, block);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        if compiled(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'a syn::ExprBlock) {
        if compiled(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_expr_if(&mut self, condition: &'a syn::ExprIf) {
        self.negated(&condition.cond);
        visit::visit_expr_if(self, condition);
    }

    fn visit_expr_while(&mut self, condition: &'a syn::ExprWhile) {
        self.negated(&condition.cond);
        visit::visit_expr_while(self, condition);
    }

    fn visit_expr_match(&mut self, choice: &'a syn::ExprMatch) {
        let arms = choice.arms.as_slice();
        if let [others @ .., last] = arms
            && matches!(last.pat, Pat::Wild(_))
        {
            for arm in others {
                // A guard that is false does the same.
                if !matches!(arm.pat, Pat::Guard(_)) {
                    let span = arm.pat.span();
                    let (begin, end) = (span.start(), span.byte_range().end);
                    let what = format!("arm left out: {}", self.source(span));
                    self.put(end..end, (begin.line, begin.column + 1), Form::Arm, what);
                }
            }
        }
        visit::visit_expr_match(self, choice);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let whole = binary.left.span().join(binary.right.span());
        if let Some(whole) = whole.filter(|_| !has_let(&binary.left) && !has_let(&binary.right)) {
            let operator = self.source(binary.op.span());
            for other in others(operator) {
                self.replace(whole, binary.op.span(), other);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        if let UnOp::Not(not) = &unary.op {
            self.replace(unary.span(), not.span, "");
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_lit(&mut self, literal: &'a syn::ExprLit) {
        match &literal.lit {
            syn::Lit::Int(number) => {
                let text = self.source(number.span());
                let zero = number.base10_digits() == "0";
                let changes = ["+ 1", "- 1"].into_iter().take(2 - usize::from(zero));
                for change in changes {
                    let changed = format!("({text} {change})");
                    let what = format!("{text} => {text} {change}");
                    self.add(number.span(), Form::Expression(changed), what);
                }
            }
            syn::Lit::Bool(value) => {
                let changed = (!value.value).to_string();
                let what = format!("{} => {changed}", value.value);
                self.add(value.span, Form::Expression(changed), what);
            }
            _ => {}
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        let name = call.method.to_string();
        if let Some((_, other)) = METHODS.iter().find(|(from, _)| *from == name) {
            self.replace(call.span(), call.method.span(), other);
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// Whether code with these attributes is compiled into programs other than tests and models.
fn compiled(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().all(|attribute| {
        let path = attribute.path();
        let tokens = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        let plain = !tokens.contains("test") && !tokens.contains("loom") && !tokens.contains("not");
        let kept = tokens.contains("not (loom)") || tokens.contains("not(loom)");
        !path.is_ident("test") && (!path.is_ident("cfg") || plain || kept)
    })
}
