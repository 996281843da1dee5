//! The macro that declares events, their fields and what describes them.

/// Declares the events: code, name, group and name in text, meaning, fields with their meaning.
macro_rules! events {
    ($(
        $code:literal $variant:ident $group:ident:$name:ident $meaning:literal
        $({ $($field:ident: $type:ty = $field_meaning:literal,)* })?
    )*) => {
        /// An event of the engine.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum TraceEvent {
            $(
                #[doc = $meaning]
                $variant $({ $(#[doc = $field_meaning] $field: $type,)* })?,
            )*
        }

        /// Kind of an event. The number of a kind, its names and those of its fields stay as
        /// they are.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $meaning] $variant = $code,)*
        }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The kind of a number.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                Some(match number {
                    $($code => Self::$variant,)*
                    _ => return None,
                })
            }

            /// The group that the kind belongs to, such as `cdc`.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($group),)*
                }
            }

            /// The name within the group, such as `sent`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }

            /// Group and name, such as `cdc:sent`.
            #[must_use]
            pub const fn full_name(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!(stringify!($group), ":", stringify!($name)),)*
                }
            }

            /// What an event of the kind says, as a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }

            /// The fields, in their order.
            #[must_use]
            pub const fn fields(self) -> &'static [FieldInfo] {
                match self {
                    $(Self::$variant => &[$($(
                        FieldInfo { name: stringify!($field), meaning: $field_meaning },
                    )*)?],)*
                }
            }
        }

        impl TraceEvent {
            /// The kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant $({ $($field: _,)* })? => Kind::$variant,)*
                }
            }

            /// Calls `visit` for each field in its order, with name and value.
            pub fn each_field(&self, mut visit: impl FnMut(&'static str, Value)) {
                match *self {
                    $(Self::$variant $({ $($field,)* })? => {
                        $($(visit(stringify!($field), Field::value($field));)*)?
                    })*
                }
            }

            /// Writes the fields.
            #[inline]
            pub(super) fn put(&self, out: &mut Writer) {
                match *self {
                    $(Self::$variant $({ $($field,)* })? => {
                        $($(Field::put($field, out);)*)?
                    })*
                }
            }

            /// Reads the fields of an event of this kind.
            pub(super) fn get(kind: Kind, from: &mut Reader) -> Option<Self> {
                Some(match kind {
                    $(Kind::$variant => Self::$variant $({
                        $($field: Field::get(from)?,)*
                    })?,)*
                })
            }
        }

        // All fields of an event fit into a record.
        $(
            const _: () = assert!(
                FIELD_OCTETS
                    .checked_sub(0usize $($(.saturating_add(<$type as Field>::OCTETS))*)?)
                    .is_some()
            );
        )*
    };
}

pub(super) use events;
