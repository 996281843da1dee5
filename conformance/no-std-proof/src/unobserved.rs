//! Storage of an endpoint without an observer: its tables and nothing else.

/// Tables.
pub type Stored<T> = T;

/// Storage of tables.
pub const fn stored<T>(tables: T) -> Stored<T> {
    tables
}
