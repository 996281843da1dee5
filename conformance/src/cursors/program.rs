//! Types and functions of Rust files, as far as the translator knows them.

use std::collections::BTreeMap;

use syn::spanned::Spanned;

use super::Problem;
use super::terms::Range;

/// Functions that no law needs and the translator does not know.
const NOT_TRANSLATED: [&str; 1] = ["Spans::iter"];

/// A type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Bool,
    Int(Range),
    /// A struct or an enum of the sources.
    Named(String),
    Option(Box<Type>),
    Result(Box<Type>, Box<Type>),
}

impl Type {
    /// An integer of `width` bits.
    pub(super) const fn int(width: u32, signed: bool) -> Self {
        Self::Int(Range { width, signed })
    }
}

/// A function, free or of a type.
pub(super) struct Function {
    /// The type it belongs to.
    pub(super) of: Option<String>,
    pub(super) parameters: Vec<(String, Type)>,
    pub(super) result: Type,
    pub(super) body: syn::Block,
    /// The file it is in.
    file: &'static str,
}

/// All that was read.
#[derive(Default)]
pub(super) struct Program {
    structs: BTreeMap<String, Vec<(String, Type)>>,
    enums: BTreeMap<String, Vec<(String, Option<Type>)>>,
    constants: BTreeMap<String, (Type, syn::Expr)>,
    functions: BTreeMap<String, Function>,
}

/// The text of one struct of a file.
pub(super) fn only_struct(text: &str, name: &str) -> Result<String, Problem> {
    let file = syn::parse_file(text).map_err(|error| Problem::new(error.to_string()))?;
    let found = file.items.iter().find_map(|item| match item {
        syn::Item::Struct(item) if item.ident == name => Some(item.span().byte_range()),
        _ => None,
    });
    match found {
        Some(range) => Ok(text[range].to_owned()),
        None => Err(Problem::new(format!("no struct {name}"))),
    }
}

/// What cannot be translated, and where it is.
pub(super) fn unknown(what: &str, at: &impl Spanned) -> Problem {
    let place = at.span().start();
    Problem::new(format!(
        "line {}, column {}: {what}",
        place.line,
        place.column + 1
    ))
}

impl Program {
    /// Reads files, each with its name.
    pub(super) fn parse<'a>(
        files: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) -> Result<Self, Problem> {
        let mut program = Self::default();
        for (name, text) in files {
            let named = |problem: Problem| Problem::new(format!("{name}: {problem}"));
            let file = syn::parse_file(text)
                .map_err(|error| named(unknown(&error.to_string(), &error.span())))?;
            for item in file.items {
                program.item(name, item).map_err(named)?;
            }
        }
        Ok(program)
    }

    fn item(&mut self, file: &'static str, item: syn::Item) -> Result<(), Problem> {
        match item {
            syn::Item::Use(_) => Ok(()),
            syn::Item::Struct(item) => {
                let fields = item.fields.iter().map(|field| {
                    let name = field.ident.as_ref();
                    let name = name.ok_or_else(|| unknown("a field without a name", field))?;
                    Ok((name.to_string(), self.type_of(&field.ty, None)?))
                });
                let fields = fields.collect::<Result<_, Problem>>()?;
                self.structs.insert(item.ident.to_string(), fields);
                Ok(())
            }
            syn::Item::Enum(item) => {
                let variants = item.variants.iter().map(|variant| {
                    let mut fields = variant.fields.iter();
                    let payload = fields.next();
                    if fields.next().is_some() || variant.discriminant.is_some() {
                        return Err(unknown("such a variant", variant));
                    }
                    let payload = payload.map(|field| self.type_of(&field.ty, None));
                    Ok((variant.ident.to_string(), payload.transpose()?))
                });
                let variants = variants.collect::<Result<_, Problem>>()?;
                self.enums.insert(item.ident.to_string(), variants);
                Ok(())
            }
            syn::Item::Fn(item) => self.function(file, None, &item.sig, *item.block),
            syn::Item::Impl(item) if item.trait_.is_none() => {
                let Type::Named(of) = self.type_of(&item.self_ty, None)? else {
                    return Err(unknown("such a type", &item.self_ty));
                };
                for item in item.items {
                    match item {
                        syn::ImplItem::Fn(item) => {
                            self.function(file, Some(&of), &item.sig, item.block)?;
                        }
                        syn::ImplItem::Const(item) => {
                            let of_type = self.type_of(&item.ty, Some(&of))?;
                            self.constants
                                .insert(format!("{of}::{}", item.ident), (of_type, item.expr));
                        }
                        other => return Err(unknown("such an item", &other)),
                    }
                }
                Ok(())
            }
            other => Err(unknown("such an item", &other)),
        }
    }

    fn function(
        &mut self,
        file: &'static str,
        of: Option<&String>,
        signature: &syn::Signature,
        body: syn::Block,
    ) -> Result<(), Problem> {
        let name = match of {
            Some(of) => format!("{of}::{}", signature.ident),
            None => signature.ident.to_string(),
        };
        if NOT_TRANSLATED.contains(&name.as_str()) {
            return Ok(());
        }
        let parameters = signature.inputs.iter().map(|input| match input {
            syn::FnArg::Receiver(receiver) if matches!(receiver.kind, syn::ReceiverKind::Value) => {
                let of = of.ok_or_else(|| unknown("self", receiver))?;
                Ok(("self".to_owned(), Type::Named(of.clone())))
            }
            syn::FnArg::Typed(typed) => match &*typed.pat {
                syn::Pat::Ident(ident) => Ok((
                    ident.ident.to_string(),
                    self.type_of(&typed.ty, of.map(String::as_str))?,
                )),
                other => Err(unknown("such a parameter", other)),
            },
            other => Err(unknown("such a parameter", other)),
        });
        let parameters = parameters.collect::<Result<_, Problem>>()?;
        let syn::ReturnType::Type(_, result) = &signature.output else {
            return Err(unknown("a function without a result", signature));
        };
        let function = Function {
            of: of.cloned(),
            parameters,
            result: self.type_of(result, of.map(String::as_str))?,
            body,
            file,
        };
        match self.functions.insert(name, function) {
            None => Ok(()),
            Some(_) => Err(unknown("a second function of this name", signature)),
        }
    }

    /// A type as the sources write it; `of` is `Self`.
    pub(super) fn type_of(&self, written: &syn::Type, of: Option<&str>) -> Result<Type, Problem> {
        let syn::Type::Path(path) = written else {
            return Err(unknown("such a type", written));
        };
        let last = path.path.segments.last();
        let last = last.ok_or_else(|| unknown("such a type", written))?;
        let inner = || match &last.arguments {
            syn::PathArguments::AngleBracketed(given) => {
                let each = given.args.iter().map(|argument| match argument {
                    syn::GenericArgument::Type(inner) => self.type_of(inner, of),
                    other => Err(unknown("such a type", other)),
                });
                each.collect::<Result<Vec<_>, _>>()
            }
            _ => Ok(Vec::new()),
        };
        Ok(match (last.ident.to_string().as_str(), of) {
            ("bool", _) => Type::Bool,
            ("u16", _) => Type::int(16, false),
            ("i16", _) => Type::int(16, true),
            ("u32", _) => Type::int(32, false),
            ("i32", _) => Type::int(32, true),
            ("u64", _) => Type::int(64, false),
            ("i64", _) => Type::int(64, true),
            ("Self", Some(of)) => Type::Named(of.to_owned()),
            ("Option", _) => match <[Type; 1]>::try_from(inner()?) {
                Ok([inner]) => Type::Option(Box::new(inner)),
                Err(_) => return Err(unknown("such a type", written)),
            },
            ("Result", _) => match <[Type; 2]>::try_from(inner()?) {
                Ok([value, error]) => Type::Result(Box::new(value), Box::new(error)),
                Err(_) => return Err(unknown("such a type", written)),
            },
            (
                name @ ("Ring" | "Position" | "Cursor" | "Span" | "Spans" | "Step" | "StepFault"),
                _,
            ) => Type::Named(name.to_owned()),
            _ => return Err(unknown("such a type", written)),
        })
    }

    /// Fields of a struct, in order.
    pub(super) fn fields(&self, name: &str) -> Option<&[(String, Type)]> {
        self.structs.get(name).map(Vec::as_slice)
    }

    /// Variants of an enum, in order.
    pub(super) fn variants(&self, name: &str) -> Option<&[(String, Option<Type>)]> {
        self.enums.get(name).map(Vec::as_slice)
    }

    /// A constant of a type.
    pub(super) fn constant(&self, name: &str) -> Option<&(Type, syn::Expr)> {
        self.constants.get(name)
    }

    /// A function by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// Names of all functions.
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Names of all laws.
    pub(super) fn laws(&self) -> Vec<String> {
        let applied = Type::Option(Box::new(Type::Bool));
        let law = |function: &Function| function.file == "laws.rs" && function.result == applied;
        let each = self.functions.iter().filter(|(_, function)| law(function));
        each.map(|(name, _)| name.clone()).collect()
    }
}
