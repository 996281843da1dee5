//! Patterns, and conditions with patterns in them.

use super::super::Problem;
use super::super::program::unknown;
use super::super::terms::Term;
use super::values::Value;
use super::{Run, Scope};

/// What a pattern binds.
type Bound = Vec<(String, Value)>;

impl<'a> Run<'a> {
    /// When a pattern matches a value, and what it binds then.
    pub(super) fn matched(
        &mut self,
        pattern: &syn::Pat,
        value: &Value,
    ) -> Result<(Term, Bound), Problem> {
        let always = self.terms.truth(true);
        match pattern {
            syn::Pat::Wild(_) => Ok((always, Vec::new())),
            syn::Pat::Ident(ident) if ident.ident == "None" => {
                Ok((self.is("None", value)?.0, Vec::new()))
            }
            syn::Pat::Ident(ident) if ident.subpat.is_none() && ident.by_ref.is_none() => {
                Ok((always, vec![(ident.ident.to_string(), value.clone())]))
            }
            syn::Pat::Path(path) => Ok((self.is(&last(&path.path), value)?.0, Vec::new())),
            syn::Pat::TupleStruct(with) => {
                let (is, payload) = self.is(&last(&with.path), value)?;
                match (with.elems.first(), with.elems.len(), payload) {
                    (Some(inner), 1, Some(payload)) => {
                        let (matched, bound) = self.matched(inner, &payload)?;
                        Ok((self.terms.and(is, matched), bound))
                    }
                    // The value is never this variant: nothing it binds is ever read.
                    (Some(syn::Pat::Wild(_)), 1, None) => Ok((is, Vec::new())),
                    _ => Err(unknown("such a pattern", pattern)),
                }
            }
            other => Err(unknown("such a pattern", other)),
        }
    }

    fn is(&mut self, name: &str, value: &Value) -> Result<(Term, Option<Value>), Problem> {
        let Value::Enum(variants) = value else {
            return Err(Problem::new(format!("{name}: matched with {value:?}")));
        };
        let found = variants.iter().find(|variant| variant.name == name);
        Ok(match found {
            Some(found) => (found.when, found.payload.as_deref().cloned()),
            None => (self.terms.truth(false), None),
        })
    }

    /// When a condition holds, and what it binds then.
    pub(super) fn condition(
        &mut self,
        condition: &syn::Expr,
        scope: &Scope<'a>,
    ) -> Result<(Term, Bound), Problem> {
        if let syn::Expr::Let(matching) = condition {
            let value = self.inner(&matching.expr, scope, None)?;
            return self.matched(&matching.pat, &value);
        }
        match self.inner(condition, scope, None)? {
            Value::Bool(term) => Ok((term, Vec::new())),
            _ => Err(unknown("no condition", condition)),
        }
    }
}

/// The last segment of a path.
pub(super) fn last(path: &syn::Path) -> String {
    let last = path.segments.last();
    last.map_or_else(String::new, |segment| segment.ident.to_string())
}
