//! Storage of an endpoint without an observer: its tables and nothing else.

/// Tables.
pub(crate) type Stored<T> = T;

/// Storage of tables.
pub(crate) const fn stored<T>(tables: T) -> Stored<T> {
    tables
}
