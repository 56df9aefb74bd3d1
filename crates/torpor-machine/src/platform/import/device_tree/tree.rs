// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A device tree's nodes and properties, and typed access that knows its place when it fails.

use super::super::Failure;
use std::collections::BTreeMap;

/// Nodes are in one list, so that neither depth nor a damaged file causes recursion.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    /// The root first, every node after its parent.
    nodes: Vec<Data<'a>>,
    by_phandle: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct Data<'a> {
    name: &'a str,
    parent: Option<usize>,
    children: Vec<usize>,
    properties: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Tree<'a> {
    /// Adds a node and returns its index.
    pub(super) fn add(&mut self, name: &'a str, parent: Option<usize>) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Data { name, parent, children: Vec::new(), properties: Vec::new() });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(index);
        }
        index
    }

    pub(super) fn set(&mut self, node: usize, name: &'a str, value: &'a [u8]) {
        if let ("phandle" | "linux,phandle", &[a, b, c, d]) = (name, value) {
            self.by_phandle.insert(u32::from_be_bytes([a, b, c, d]), node);
        }
        self.nodes[node].properties.push((name, value));
    }

    /// `None` for a tree without any node.
    pub(super) fn root(&self) -> Option<Node<'_>> {
        (!self.nodes.is_empty()).then_some(Node { tree: self, index: 0 })
    }
}

#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    tree: &'t Tree<'t>,
    index: usize,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl<'t> Node<'t> {
    fn data(self) -> &'t Data<'t> {
        &self.tree.nodes[self.index]
    }

    /// Without the unit address.
    pub(super) fn name(self) -> &'t str {
        self.data().name.split('@').next().unwrap_or_default()
    }

    /// From the root, as errors and the kernel's log name it.
    pub(super) fn path(self) -> String {
        let parents = std::iter::successors(Some(self), |node| node.parent());
        let names: Vec<&str> = parents.map(|node| node.data().name).collect();
        if names.len() == 1 {
            "/".to_owned()
        } else {
            names.into_iter().rev().collect::<Vec<_>>().join("/")
        }
    }

    fn parent(self) -> Option<Node<'t>> {
        Some(Node { tree: self.tree, index: self.data().parent? })
    }

    pub(super) fn children(self) -> impl Iterator<Item = Node<'t>> {
        self.data().children.iter().map(move |&index| Node { tree: self.tree, index })
    }

    pub(super) fn child(self, name: &str) -> Option<Node<'t>> {
        self.children().find(|child| child.name() == name)
    }

    pub(super) fn bytes(self, property: &str) -> Option<&'t [u8]> {
        let properties = &self.data().properties;
        properties.iter().find(|(name, _)| *name == property).map(|(_, value)| *value)
    }

    pub(super) fn has(self, property: &str) -> bool {
        self.bytes(property).is_some()
    }

    /// As `of_device_is_available()`.
    pub(super) fn is_available(self) -> bool {
        self.texts("status").first().is_none_or(|status| matches!(*status, "okay" | "ok"))
    }

    /// A list of strings, each ended by a NUL; what is no UTF-8 is left out.
    pub(super) fn texts(self, property: &str) -> Vec<&'t str> {
        let Some(value) = self.bytes(property) else { return Vec::new() };
        let value = value.strip_suffix(b"\0").unwrap_or(value);
        value.split(|b| *b == 0).filter_map(|text| std::str::from_utf8(text).ok()).collect()
    }

    /// Cells of 32 bits; an absent property has none.
    pub(super) fn cells(self, property: &str) -> Result<Vec<u32>, Failure> {
        let value = self.bytes(property).unwrap_or_default();
        let cells = value.chunks_exact(4);
        if !cells.remainder().is_empty() {
            let found = format!("is {} bytes long", value.len());
            return Err(self.failure(property, &found, "whole cells of 32 bits"));
        }
        let cell = |bytes: &[u8]| bytes.iter().fold(0, |cell, byte| cell << 8 | u32::from(*byte));
        Ok(cells.map(cell).collect())
    }

    /// The first cell, or `None` if the property is absent.
    pub(super) fn u32(self, property: &str) -> Result<Option<u32>, Failure> {
        let cells = self.cells(property)?;
        match cells.first() {
            None if self.has(property) => Err(self.failure(property, "is empty", "one number")),
            first => Ok(first.copied()),
        }
    }

    /// The first two cells as one number, or `None` if the property is absent.
    pub(super) fn u64(self, property: &str) -> Result<Option<u64>, Failure> {
        match self.cells(property)?[..] {
            [] if !self.has(property) => Ok(None),
            [high, low, ..] => Ok(Some(u64::from(high) << 32 | u64::from(low))),
            _ => Err(self.failure(property, "is too short", "`/bits/ 64 <NUMBER>`")),
        }
    }

    pub(super) fn needed<T>(self, property: &str, value: Option<T>) -> Result<T, Failure> {
        value.ok_or_else(|| self.failure(property, "is not there", "a number"))
    }

    /// The nodes a list of phandles points to.
    pub(super) fn targets(self, property: &str) -> Result<Vec<Node<'t>>, Failure> {
        self.cells(property)?.into_iter().map(|phandle| self.follow(property, phandle)).collect()
    }

    /// The node that the first cell points to, whatever arguments follow.
    pub(super) fn target(self, property: &str) -> Result<Option<Node<'t>>, Failure> {
        self.u32(property)?.map(|phandle| self.follow(property, phandle)).transpose()
    }

    fn follow(self, property: &str, phandle: u32) -> Result<Node<'t>, Failure> {
        let index = self.tree.by_phandle.get(&phandle).ok_or_else(|| {
            self.failure(property, &format!("holds {phandle:#x}"), "the phandle of a node")
        })?;
        Ok(Node { tree: self.tree, index: *index })
    }

    pub(super) fn failure(self, property: &str, found: &str, allowed: &str) -> Failure {
        Failure {
            reason: format!("`{}`: `{property}` {found}; allowed: {allowed}", self.path()),
            hint: "correct the device tree's source; `dtc -I dtb -O dts FILE` shows what a .dtb \
                   holds"
                .to_owned(),
        }
    }
}
