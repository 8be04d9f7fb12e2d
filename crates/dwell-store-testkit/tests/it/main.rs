//! The testkit against itself: the honest model passes, and every broken store is caught, by name.

mod broken;
mod honest;
mod property;
