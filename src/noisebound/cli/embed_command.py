"""``noisebound embed``: embed raw data by a pretrained encoder."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from noisebound.cli.options import Reading, ReadingFlags
from noisebound.system.console import print_note, print_text


def embed(
    data: str,
    *,
    out: Path,
    backbone: Annotated[str, Parameter(metavar="ENCODER")] = "auto",
    cluster: Annotated[str | None, Parameter(metavar="ADDRESS")] = None,
    reading: Reading = None,
) -> None:
    """Write the embeddings of a data set to a folder that `noisebound fit` reads.

    Parameters
    ----------
    data
        The data: a folder of images or .txt files, a table with a column of texts, an npz or npy
            file of images, or the name of a published data set.
    out
        The folder to write. To continue after an interruption, run the same command again.
    backbone
        The pretrained encoder: hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME or package:NAME; auto for
            one that fits the examples.
    cluster
        The address of a Ray cluster, auto to use one that runs here, or local to start one. All
            machines must have access to the data and the output folder.
    """
    from noisebound.features import parse_backbone
    from noisebound.features.auto import needed_backbone
    from noisebound.features.embed_folder import embed_folder
    from noisebound.features.load import load_raw
    from noisebound.system.memory import keep_freed_memory

    keep_freed_memory()
    options = (reading or ReadingFlags()).options
    encoder = None if backbone == "auto" else parse_backbone(backbone, options.image_size)
    raw = load_raw(data, options)
    encoder = encoder or needed_backbone(raw.train.examples.modality, print_note)
    notes = embed_folder(
        raw, encoder, out, skip_bad=options.skip_bad, cluster=cluster, log=print_note
    )
    for note in (*raw.splits.notes, *notes):
        print_note(note)
    count = sum(len(part.examples) for part in raw.parts.values())
    print_text(f"{count:,} examples: {out}")
