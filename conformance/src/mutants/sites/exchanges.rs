//! What operators and methods are exchanged for.

use syn::{BinOp, Expr};

/// Method calls, and what is called instead.
pub(super) const METHODS: [(&str, &str); 12] = [
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("is_some_and", "is_none_or"),
    ("is_none_or", "is_some_and"),
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("front", "back"),
    ("first", "last"),
];

/// Whether a condition has a `let`, which cannot be within parentheses.
pub(super) fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

pub(super) fn comparison(operator: &BinOp) -> bool {
    use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(operator, Eq(_) | Ge(_) | Gt(_) | Le(_) | Lt(_) | Ne(_))
}

/// What an operator is exchanged for.
pub(super) fn others(operator: &str) -> &'static [&'static str] {
    match operator {
        "==" => &["!="],
        "!=" => &["=="],
        "<" => &["<=", ">="],
        "<=" => &["<", ">"],
        ">" => &[">=", "<="],
        ">=" => &[">", "<"],
        "&&" => &["||"],
        "||" => &["&&"],
        "+" => &["-"],
        "-" => &["+"],
        "*" => &["+"],
        "/" => &["*"],
        "%" => &["/"],
        "|" => &["&"],
        "&" | "^" => &["|"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "+=" => &["-="],
        "-=" => &["+="],
        "|=" => &["&="],
        "&=" => &["|="],
        _ => &[],
    }
}
