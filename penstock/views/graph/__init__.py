"""The graph of definitions: as text, as a Mermaid flowchart, and as a picture."""
