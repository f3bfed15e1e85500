//! The nodes and what they hold: pure data, changed only by [`TreeChange`]s.
//!
//! What a client may do is decided elsewhere; here a change that makes no sense is an error, never a half-made change.

mod data_tree;
mod node;
mod walk;

pub(crate) use data_tree::{ChangeError, DataTree, Undo};
pub(crate) use node::AccessList;
pub(crate) use node::{NodeOwner, NodeRecord, TTL_MS_MAX, TreeNode};
pub(crate) use node::{TreeChange, TreeTransaction};
pub(crate) use node::{is_system_path, split_parent};
pub(crate) use walk::Visited;
