"""Building blocks of pages and papers: tables, plots, heat maps, galleries, figures."""
