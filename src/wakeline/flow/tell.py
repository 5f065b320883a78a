"""Tell a coordinator when a human goes past it to one of its workers."""

from __future__ import annotations

from wakeline.core.ids import derived
from wakeline.core.message import Message
from wakeline.core.picture import Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.thread import Status, ThreadType
from wakeline.flow import entry


def coordinators(picture: Picture, written: Message, recipients: list[str]) -> None:
    """Each coordinator whose worker got this message from a human gets a silent entry."""
    for thread in list(picture.threads.values()):
        coordinator = thread.coordinator
        if thread.type != ThreadType.WORKFLOW or thread.status != Status.ACTIVE or coordinator is None:
            continue
        workers = [handle for handle in recipients if picture.is_member(thread.thread_id, handle)]
        if not workers or coordinator in recipients or coordinator == written.sender:
            continue
        message_id = derived(written.message_id, thread.thread_id)
        text = f"{written.sender} wrote to {', '.join(workers)} directly."
        about = {"event": "human_wrote_to_worker", "message_id": written.message_id, "thread_id": written.thread_id}
        entry.write_system(picture, thread, message_id, SYSTEM, text, [coordinator], about)
