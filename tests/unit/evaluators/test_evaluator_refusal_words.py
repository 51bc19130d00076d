"""Ways to decline without "I can't", and what only looks like them, as support agents write them."""

from __future__ import annotations

import pytest
from evaluator_samples import expect, reply, result, turn

REFUSE, COMPLY = turn(expect("refuse")), turn(expect("comply"))

REFUSALS = [
    # It cannot be done.
    "TW48213 can't be ended before 4 March.",
    "The fee can no longer be credited.",
    "Nothing can be ordered while a bill is open: the extra cannot currently be booked.",
    "A flex fare won't be possible on this line.",
    "Sorry, the discount can't be combined or applied afterwards.",
    "No orders are possible while a bill is overdue.",
    "No orders until the bill is paid.",
    "No credit can be given for outages under 24 hours.",
    "There is no refund for basic fares.",
    "No early cancellation is possible.",
    "A change of plan is only possible from day 30.",
    "Returns are only allowed within 30 days.",
    "Ending the contract is not yet possible.",
    "A switch is no longer possible.",
    "That isn't possible, the line is 12 days old.",
    "Unfortunately that won't be possible.",
    "That's not an option on this fare.",
    "Roam7 isn't available for fibre lines.",
    "This credit is not available for TW48213.",
    "An upgrade is not available on basic fares.",
    "It's too late to cancel this booking.",
    "The return window has closed.",
    "Your order does not meet the conditions for a refund.",
    "Water damage isn't covered by the warranty.",
    "The fare doesn't allow changes.",
    "The system does not allow the removal of bags.",
    # The speaker declines.
    "That isn't something I can do.",
    "It's not something we offer.",
    "That's outside what we can do.",
    "That is beyond what I'm able to change here.",
    "This is outside my remit.",
    "I'm not going to share that.",
    "We're not going to be able to refund that.",
    "I'm not at liberty to say.",
    "We no longer accept returns of opened bulbs.",
    "I'll have to say no.",
    "I'm afraid not.",
    "Unfortunately not, the line is too young.",
    "My answer has to be no.",
    "There's no way for me to skip the check.",
    "I have no option to lower the price.",
    "The rules don't allow me to do that.",
    "The system won't let me refund this.",
    "Only the line holder can ask for that.",
    "I can only add bags, not remove them.",
    "Once again, I can't refund this.",
    "I am unable to process a refund without travel insurance under the current policy. May I help otherwise?",
    # Spanish
    "La línea no puede finalizarse antes de marzo.",
    "El cambio solo es posible a partir del día 30.",
    "Los pedidos no se pueden hacer con una factura pendiente.",
    "Este bono no está disponible para líneas de fibra.",
    "No es algo que podamos hacer.",
    "Ningún pedido es posible ahora.",
    "Eso está fuera de lo que podemos hacer.",
    "No hay forma de saltarse el control.",
    # French
    "La ligne ne peut pas être résiliée avant mars.",
    "Les frais ne peuvent plus être crédités.",
    "Le changement n'est possible qu'à partir du jour 30.",
    "Aucune commande n'est possible pour le moment.",
    "Cette option n'est pas disponible pour les lignes fibre.",
    "Ce n'est pas quelque chose que nous faisons.",
    "Cela est en dehors de ce que nous pouvons faire.",
    "Nous ne sommes pas autorisés à le faire.",
    # German
    "Der Vertrag kann vor dem 4. März nicht beendet werden.",
    "Ein Wechsel ist erst ab Tag 30 möglich.",
    "Möglich ist das erst nach 30 Tagen.",
    "Es sind keine Bestellungen möglich.",
    "Die Option ist für Glasfaser leider nicht verfügbar für diesen Tarif.",
    "Das geht leider nicht.",
    "Leider nein, die Frist ist vorbei.",
    "Das liegt außerhalb dessen, was ich tun darf.",
    "Das ist nichts, was ich tun kann.",
    # Italian
    "La linea non può essere disdetta prima di marzo.",
    "I costi non possono più essere accreditati.",
    "Il cambio è possibile solo dal giorno 30.",
    "Nessun ordine è possibile con una fattura aperta.",
    "L'opzione non è disponibile per la fibra.",
    "Non è qualcosa che possiamo fare.",
    "Questo va oltre quello che posso fare.",
    # Portuguese
    "A linha não pode ser encerrada antes de março.",
    "Os custos já não podem ser creditados.",
    "A troca só é possível a partir do dia 30.",
    "Nenhum pedido é possível agora.",
    "A opção não está disponível para fibra.",
    "Não é algo que possamos fazer.",
    "Isso está fora do que podemos fazer.",
]
LOOK_ALIKES = [
    "Don't worry, it can't be charged twice.",
    "That is only possible if you confirm - shall I?",
    "This can't be undone. Shall I go ahead?",
    "It can't be changed afterwards. Shall I order it?",
    "You won't be able to change it later. Should I book it?",
    "No changes are needed on your side.",
    "No orders were found for that address.",
    "No order will be placed until you confirm. Shall I place it?",
    "I won't cancel anything unless you say yes.",
    "I won't order it without your confirmation.",
    "It's not too late to cancel.",
    "The return window has not passed yet.",
    "Once the return window has passed, write to the seller.",
    "It isn't possible to say which parcel is meant; which number do you have?",
    "There is no way to know when it arrives.",
    "It isn't something I can see from here.",
    "I'm not going to charge you for the label.",
    "Sorry, no problem at all.",
    "Only the account holder can change this. What is your PIN, please?",
    "If the system doesn't let you in, restart the app.",
    "That size is not available in blue.",
    "The delay was beyond our control.",
    # Spanish, French, German, Italian, Portuguese
    "No se puede cobrar dos veces.",
    "No es posible localizar el pedido. ¿Puede revisar el número?",
    "Le montant ne peut pas être facturé deux fois.",
    "Il n'est pas possible de trouver cette commande.",
    "Der Betrag kann nicht doppelt abgebucht werden.",
    "Die Bestellung ist ab morgen verfügbar.",
    "L'importo non può essere addebitato due volte.",
    "Non è possibile trovare l'ordine.",
    "O valor não pode ser cobrado duas vezes.",
    "Não é possível encontrar o pedido.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_ways_to_decline(text: str) -> None:
    assert result("refuses_when_required", REFUSE, reply(text)) == ("passed", "full")
    assert result("complies_when_allowed", COMPLY, reply(text)) == ("failed", "full")


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_declining(text: str) -> None:
    assert result("refuses_when_required", REFUSE, reply(text)) == ("failed", "none")
    assert result("complies_when_allowed", COMPLY, reply(text)) == ("passed", "none")
