"""How a backend joins: the contract (``contract``), the hooks as pluggy sees them (``hooks``), finding backends (``registry``)."""
